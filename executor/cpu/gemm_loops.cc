#include <algorithm>
#include <vector>

#include "executor/cpu/gemm.h"

namespace asyra::cpu {
namespace {

// Rows of c that are computed together, so that a row of b is loaded once for
// all of them, and columns of b that stay in the second level cache.
constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 512;
constexpr int64_t kDepth = 128;

template <typename T>
class LoopGemm : public Gemm {
 public:
  explicit LoopGemm(const GemmShape& shape) : s_(shape) {}

  // A block of b, rows together.
  int64_t workspace_bytes() const override {
    return kDepth * kColumns * static_cast<int64_t>(sizeof(T));
  }

  absl::Status Run(const void* a, const void* b, void* c,
                   void* workspace) override {
    const T* lhs = static_cast<const T*>(a);
    const T* rhs = static_cast<const T*>(b);
    T* out = static_cast<T*>(c);
    T* packed = static_cast<T*>(workspace);
    for (int64_t r = 0; r < s_.m && !s_.accumulates; ++r) {
      std::fill_n(out + r * s_.c_row, s_.n, T{0});
    }
    for (int64_t n = 0; n < s_.n; n += kColumns) {
      int64_t columns = std::min(kColumns, s_.n - n);
      for (int64_t k = 0; k < s_.k; k += kDepth) {
        int64_t depth = std::min(kDepth, s_.k - k);
        Pack(rhs + k * s_.b_row + n * s_.b_column, depth, columns, packed);
        for (int64_t m = 0; m < s_.m; m += kRows) {
          Rows(lhs + m * s_.a_row + k * s_.a_column, packed, depth, columns,
               std::min(kRows, s_.m - m), out + m * s_.c_row + n);
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  void Pack(const T* b, int64_t depth, int64_t columns, T* to) const {
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t j = 0; j < columns; ++j) {
        to[p * columns + j] = b[p * s_.b_row + j * s_.b_column];
      }
    }
  }

  void Rows(const T* a, const T* b, int64_t depth, int64_t columns,
            int64_t rows, T* c) const {
    if (rows < kRows) {
      for (int64_t r = 0; r < rows; ++r) {
        OneRow(a + r * s_.a_row, b, depth, columns, c + r * s_.c_row);
      }
      return;
    }
    T *c0 = c, *c1 = c + s_.c_row, *c2 = c1 + s_.c_row, *c3 = c2 + s_.c_row;
    for (int64_t p = 0; p < depth; ++p) {
      const T* at = a + p * s_.a_column;
      T x0 = at[0], x1 = at[s_.a_row], x2 = at[2 * s_.a_row],
        x3 = at[3 * s_.a_row];
      const T* y = b + p * columns;
      for (int64_t j = 0; j < columns; ++j) {
        c0[j] += x0 * y[j];
        c1[j] += x1 * y[j];
        c2[j] += x2 * y[j];
        c3[j] += x3 * y[j];
      }
    }
  }

  void OneRow(const T* a, const T* b, int64_t depth, int64_t columns,
              T* c) const {
    for (int64_t p = 0; p < depth; ++p) {
      T x = a[p * s_.a_column];
      const T* y = b + p * columns;
      for (int64_t j = 0; j < columns; ++j) c[j] += x * y[j];
    }
  }

  GemmShape s_;
};

}  // namespace

std::unique_ptr<Gemm> MakeLoopGemm(const GemmShape& shape) {
  if (shape.dtype == DType::kF64) {
    return std::make_unique<LoopGemm<double>>(shape);
  }
  return std::make_unique<LoopGemm<float>>(shape);
}

#ifndef ASYRA_ONEDNN
absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create(const GemmShape& shape) {
  return MakeLoopGemm(shape);
}

std::string GemmLibrary() { return "own loops"; }
#endif

}  // namespace asyra::cpu
