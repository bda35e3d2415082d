// One matmul in single or double precision, on matrices with any strides: the
// building block of matmul, grouped matmul and attention. In single precision
// oneDNN computes it where it is built in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ir/type.h"

namespace asyra::cpu {

// c[m, n] = a[m, k] b[k, n], or added to c. Strides are in elements; one of
// each operand's is 1, and so is that of c's columns.
struct GemmShape {
  DType dtype = DType::kF32;  // or f64
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_column = 1;
  int64_t b_row = 0, b_column = 1;
  int64_t c_row = 0;
  bool accumulates = false;
};

// Used by one thread at a time.
class Gemm {
 public:
  static absl::StatusOr<std::unique_ptr<Gemm>> Create(const GemmShape& shape);
  virtual ~Gemm() = default;
  virtual int64_t workspace_bytes() const { return 0; }
  // c does not overlap a or b.
  virtual absl::Status Run(const void* a, const void* b, void* c,
                           void* workspace) = 0;
};

// Returns the name of the library that computes matmuls in single precision:
// "oneDNN 3.4.1" or "own loops".
std::string GemmLibrary();

// Returns the loops of this project, for double precision and builds without
// oneDNN.
std::unique_ptr<Gemm> MakeLoopGemm(const GemmShape& shape);

}  // namespace asyra::cpu
