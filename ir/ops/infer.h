// Checks and loops that several op definitions share.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "ir/op_def.h"
#include "ir/support/status.h"

namespace asyra::ops {

// NumPy's rule, right aligned. Error: "operand 1 has shape [..], which does
// not broadcast with [..]".
absl::StatusOr<Shape> BroadcastShapes(absl::Span<const Type> types);
// All operands have one element type.
absl::Status RequireSameDType(const OpCall& call);
absl::Status RequireFloat(const OpCall& call, int operand);
absl::Status RequireInteger(const OpCall& call, int operand);
absl::Status RequireRank(const OpCall& call, int operand, int least);
// Leading dimensions of two operands are equal: all but the last `of_a` of `a`
// and `of_b` of `b`.
absl::Status RequireSameLead(const OpCall& call, int a, int of_a, int b,
                             int of_b);
// Attribute `name` as a dimension of a type of that rank.
absl::StatusOr<int> RequireDim(const OpCall& call, std::string_view name,
                               int rank);

// The type in which gradients of weights of that type are summed.
inline DType SumType(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

// Infers a result like operand 0.
absl::StatusOr<std::vector<Type>> SameAsFirst(const OpCall& call);

// Dimension attributes, each once and in range; normalized, in given order.
absl::StatusOr<std::vector<int>> RequireDims(const OpCall& call,
                                             std::string_view name, int rank);
// Attribute `shape` as the shape of a value of that element type: no negative
// size, at most 2^63 bytes.
absl::StatusOr<Shape> RequireShape(const OpCall& call, DType dtype);

// Part of an axis-rule spec: dimensions [from, to) as "d0 !d1 d2", those in
// `whole` marked so.
std::string DimSpec(int from, int to, absl::Span<const int> whole = {});

// Returns a rule without factors, for ops that are made of ones which are
// sharded and tiled already.
absl::StatusOr<AxisRule> NoFactors(const OpCall& call);

// Work of moving data: every result byte is read and written, and the
// operands after the first (indices) are read.
Work MoveWork(const OpCall& local);

// Element `index` of a row-major array of shape `to`, found in another array
// by strides, counted in elements.
class StridedIndex {
 public:
  StridedIndex(const Shape& to, Shape strides, int64_t offset = 0);
  int64_t operator()(int64_t index) const {
    if (identity_) return index;
    int64_t from = offset_;
    for (size_t i = to_.size(); i-- > 0;) {
      from += index % to_[i] * strides_[i];
      index /= to_[i];
    }
    return from;
  }

 private:
  Shape to_;
  Shape strides_;
  int64_t offset_;
  bool identity_;
};

// Strides of a dense row-major array.
Shape RowMajorStrides(const Shape& shape);
// Maps element `index` of a result of shape `to` to its element in an operand
// of shape `from` that broadcasts to it.
StridedIndex BroadcastIndex(const Shape& from, const Shape& to);

// out[i] = in[index(i)] for all elements of `out`, whatever their type.
template <typename Index>
void CopyElements(const Tensor& in, const Index& index, Tensor* out) {
  auto copy = [&](auto unit) {
    using Unit = decltype(unit);
    const std::byte* from = in.data();
    std::byte* to = out->mutable_data();
    for (int64_t i = 0, n = out->num_elements(); i < n; ++i) {
      std::memcpy(to + i * sizeof(Unit), from + index(i) * sizeof(Unit),
                  sizeof(Unit));
    }
  };
  switch (SizeOf(in.dtype())) {
    case 1:
      return copy(uint8_t{});
    case 2:
      return copy(uint16_t{});
    case 4:
      return copy(uint32_t{});
    default:
      return copy(uint64_t{});
  }
}

// [outer, size, inner]: a shape seen from one of its dimensions.
struct Along {
  int64_t outer = 1, size = 1, inner = 1;
  Along(const Shape& shape, int dim) : size(shape[dim]) {
    for (int i = 0; i < dim; ++i) outer *= shape[i];
    for (size_t i = dim + 1; i < shape.size(); ++i) inner *= shape[i];
  }
};

}  // namespace asyra::ops
