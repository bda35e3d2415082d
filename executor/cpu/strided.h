// Loops over the elements of a result whose operands have any strides.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "executor/strides.h"

namespace asyra::cpu {

// Walks a shape in row-major order for N operands with strides of their own.
// Dimensions that are contiguous in all of them are joined, so that what is
// left for the innermost loop is as long as it can be.
template <size_t N>
class StridedLoop {
 public:
  StridedLoop() = default;
  StridedLoop(const Shape& sizes, const std::array<Shape, N>& strides) {
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == 1) continue;
      Dim dim{sizes[d], {}};
      for (size_t k = 0; k < N; ++k) dim.strides[k] = strides[k][d];
      if (!dims_.empty() && Joins(dims_.back(), dim)) {
        dim.size *= dims_.back().size;
        dims_.back() = dim;
      } else {
        dims_.push_back(dim);
      }
    }
    if (dims_.empty()) dims_.push_back({1, {}});
    for (int64_t size : sizes) empty_ |= size == 0;
  }

  int64_t run() const { return dims_.back().size; }
  // Returns the step of the innermost loop.
  int64_t step(size_t operand) const { return dims_.back().strides[operand]; }

  // Calls visit(offsets) with the operands' first elements of every run.
  template <typename Visit>
  void ForEachRun(Visit visit) const {
    if (empty_) return;
    std::array<int64_t, N> at{};
    Recurse(0, at, visit);
  }

 private:
  struct Dim {
    int64_t size;
    std::array<int64_t, N> strides;
  };

  // Returns whether the steps of `outer` go on where those of `inner` end.
  static bool Joins(const Dim& outer, const Dim& inner) {
    for (size_t k = 0; k < N; ++k) {
      if (outer.strides[k] != inner.strides[k] * inner.size) return false;
    }
    return true;
  }

  template <typename Visit>
  void Recurse(size_t d, std::array<int64_t, N> at, Visit& visit) const {
    if (d + 1 == dims_.size()) {
      visit(at);
      return;
    }
    for (int64_t i = 0; i < dims_[d].size; ++i) {
      Recurse(d + 1, at, visit);
      for (size_t k = 0; k < N; ++k) at[k] += dims_[d].strides[k];
    }
  }

  std::vector<Dim> dims_;  // outermost first; at least one
  bool empty_ = false;
};

}  // namespace asyra::cpu
