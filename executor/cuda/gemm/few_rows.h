// Matmuls of few rows with weights [n, k], whose time is that of reading the
// weights. On an H200, up to 8 rows take 0.65 to 0.8 of cuBLASLt's time with
// weights of 8 to 50 MB, and as long with more.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "executor/cuda/gemm/gemm.h"

namespace asyra::cuda {

// A way to share out the work.
struct FewRowsDesign {
  int warps = 8;   // of a block
  int blocks = 1;  // on each SM
  friend bool operator==(const FewRowsDesign&, const FewRowsDesign&) = default;
};
// A design as a tuning result, and back; none of another text.
std::string ToText(const FewRowsDesign& design);
std::optional<FewRowsDesign> ParseFewRows(std::string_view text);

// Returns the designs worth timing; none where cuBLASLt has the shape to
// itself: more than 64 rows; a b that is not transposed, which cuBLASLt reads
// at the memory's rate; elements of other than 16 bits; a batch, a transposed
// a; rows that do not begin at multiples of 16 bytes; less than a MiB of
// weights, or more than 64.
std::vector<FewRowsDesign> FewRowsDesigns(const GemmShape& shape);

// Needs no workspace. Errors: of NVRTC.
absl::StatusOr<std::unique_ptr<Gemm>> CreateFewRows(
    const GemmShape& shape, const FewRowsDesign& design);

}  // namespace asyra::cuda
