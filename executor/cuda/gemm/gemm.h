// Matmuls by cuBLASLt, or, of few rows, by a kernel of our own. The algorithms
// that cuBLASLt's heuristics propose first and our kernel are timed on random
// data when a matmul is prepared, unless there is a tuning result
// (executor/tuning/tuning_results.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/cuda/device/cuda_status.h"
#include "executor/cuda/gemm/gemm_epilogue.h"
#include "executor/tuning/tuning_results.h"
#include "ir/type.h"

namespace asyra::cuda {

// c[m, n] = a[m, k] b[k, n], each in rows, summed in f32 or wider; a transposed
// operand is stored as [k, m] or [n, k]. `batch` matmuls, whose matrices begin
// so many elements apart; residuals have c's type and layout, so that they may
// be c itself, and all matmuls share one bias.
struct GemmShape {
  DType dtype = DType::kBF16;  // f16, bf16, f32 or f64
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  GemmEpilogue epilogue = {};
  int sms = 0;              // that it may hold; 0: all
  bool f32_result = false;  // c is f32, a and b are f16 or bf16
  // Elements from one stored row of a, and of b, to the next; 0: dense.
  int64_t a_row_stride = 0, b_row_stride = 0;

  DType result() const { return f32_result ? DType::kF32 : dtype; }
  // Stored rows of a and b, and how long they are.
  int64_t a_rows() const { return transpose_a ? k : m; }
  int64_t a_columns() const { return transpose_a ? m : k; }
  int64_t b_rows() const { return transpose_b ? n : k; }
  int64_t b_columns() const { return transpose_b ? k : n; }

  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

class Gemm {
 public:
  // Creates it with the process's tuning result for the shape and the model of
  // the current GPU. Errors: a shape that cuBLASLt has nothing for.
  static absl::StatusOr<std::unique_ptr<Gemm>> Create(const GemmShape& shape);
  virtual ~Gemm() = default;
  virtual int64_t workspace_bytes() const = 0;
  void AddTuningResult(TuningResults* results) const {
    results->emplace(key_, tuned_);
  }
  // `data` has what the epilogue reads.
  virtual absl::Status Enqueue(const void* a, const void* b, void* c,
                               const EpilogueData& data, void* workspace,
                               cudaStream_t stream) = 0;

 private:
  std::string key_;
  TuningResult tuned_;
};

}  // namespace asyra::cuda
