// cuBLASLt's algorithm for a matmul as a tuning result
// (executor/tuning/tuning_results.h): its key, and the algorithm as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "executor/cuda/gemm/gemm.h"

namespace asyra::cuda {

// NVIDIA recommends 32 MiB on Hopper.
inline constexpr uint64_t kGemmWorkspaceBytes = uint64_t{32} << 20;

// Returns the alignment that all matrices of such matmuls have: values begin at
// multiples of kDeviceAlignment, further matrices of a batch at multiples of
// their size; matrices whose rows are apart, parts of others, at multiples of
// kGpuVectorBytes.
uint32_t AlignmentOf(const GemmShape& shape);

// Returns all that an algorithm depends on: every field of the shape, the
// alignment, the version of cuBLASLt, and the GPU (GpuModel).
std::string KeyOf(const GemmShape& shape, std::string_view gpu);

struct GemmAlgorithm {
  cublasLtMatmulAlgo_t algo = {};
  uint64_t workspace_bytes = 0;
};
// NVIDIA: an algorithm "can be trivially serialized and later restored for use
// with the same version of cuBLAS library".
std::string ToText(const GemmAlgorithm& algorithm);
// None of a text that ToText has not made.
std::optional<GemmAlgorithm> ParseGemmAlgorithm(std::string_view text);

}  // namespace asyra::cuda
