// Shared by ops that find elements by index.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"

namespace asyra::ops {

// An index counted from the end when negative.
inline absl::StatusOr<int64_t> Position(int64_t index, int64_t size) {
  if (index < -size || index >= size) {
    return Invalid("index {} is not in [{}, {})", index, -size, size);
  }
  return index < 0 ? index + size : index;
}

// Returns the count of rows that ids name, from an op's attribute `rows` and
// the size of the dimension: rows behind them are padding, which no id names.
inline int64_t IdsOf(int64_t rows, int64_t size) {
  return rows < 0 ? size : rows;
}
AttrDef RowsAttr();

// For ops whose operand 1, integers, has an index into dimension `dim` of
// operand 0 for each of its elements, as GatherElements of ONNX. It is no
// larger than operand 0 in the others.
absl::StatusOr<int> RequireElementIndices(const OpCall& call);  // gives `dim`
// Dimensions of both operands for an axis rule, `dim` of them as given.
struct ElementSpecs {
  std::string x, indices;
};
ElementSpecs SpecsOfElements(const OpCall& call, std::string_view x_dim,
                             std::string_view indices_dim);
// For each element of operand 1 its element of operand 0, both local; -1:
// on another device.
absl::StatusOr<std::vector<int64_t>> FindElements(const RefCall& call);

// The way to combine a scattered element with the one it falls on.
enum class Reduction { kNone, kAdd, kMul, kMax, kMin };
inline constexpr std::string_view kReductions[] = {"none", "add", "mul", "max",
                                                   "min"};

AttrDef ReductionAttr();
absl::StatusOr<Reduction> RequireReduction(const OpCall& call);
Reduction ReductionOf(const AttrMap& attrs);  // of a verified op

// Elements of `updates` put one by one into a copy of `x`. Floats are combined
// in double and rounded once.
class Scatter {
 public:
  Scatter(Reduction reduction, const Tensor& x, const Tensor& updates);
  void Put(int64_t element, int64_t update);
  void Finish(Tensor* out) const;

 private:
  Reduction reduction_;
  bool is_float_;
  std::vector<double> floats_, float_updates_;
  std::vector<int64_t> ints_, int_updates_;
};

// Gradients of `scatter`(x, indices, updates), whose elements `gather` finds
// again. Elements that are equally large or small share what max or min gives;
// that of mul is not a number where an update is 0.
Gradients ScatterGradients(Gradient& g, std::string_view scatter,
                           std::string_view gather);

}  // namespace asyra::ops
