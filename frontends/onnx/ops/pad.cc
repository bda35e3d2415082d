#include "frontends/onnx/ops/ops.h"

namespace asyra::onnx_import::ops {
namespace {

// The number that inputs `constant_value` gives, exactly.
absl::StatusOr<double> PadValue(Node& node) {
  if (!node.Has(2)) return 0.0;
  node.TakeNumber(2);
  const Value& value = node.In(2);
  if (!value.is_splat()) {
    return Unimplemented("constant_value must be a known scalar");
  }
  double number = value.data().Get(0);
  Tensor back = Tensor::FromDoubles(value.dtype(), {1}, {number});
  if (!SameBytes(back, value.data().Reshaped({1}))) {
    return Unimplemented("constant_value {} is not exact as a float",
                         value.data().GetInt(0));
  }
  return number;
}

}  // namespace

absl::Status Pad(Node& node) {
  ASYRA_ASSIGN_OR_RETURN(Ints pads, node.KnownInts(1, "pads"));
  ASYRA_ASSIGN_OR_RETURN(double number, PadValue(node));
  Ints axes;
  for (int i = 0; i < node.rank(); ++i) axes.push_back(i);
  if (node.Has(3)) {
    ASYRA_ASSIGN_OR_RETURN(axes, node.KnownInts(3, "axes"));
  }
  if (pads.size() != 2 * axes.size()) {
    return Invalid("pads has {} entries for {} axes", pads.size(), axes.size());
  }
  // Negative pads leave elements out.
  Value value = node.In(0);
  Ints before(node.rank(), 0), after(node.rank(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(int dim, DimOf(axes[i], node.rank()));
    before[dim] = pads[i];
    after[dim] = pads[axes.size() + i];
    int64_t size = value.type().size(dim);
    int64_t least = std::min(before[dim], after[dim]);
    if (least < -size ||
        std::min(before[dim], int64_t{0}) + std::min(after[dim], int64_t{0}) <
            -size) {
      return Invalid("pads {} and {} of dim {} of size {}", before[dim],
                     after[dim], dim, size);
    }
    int64_t start = std::max(-before[dim], int64_t{0});
    int64_t stop = size - std::max(-after[dim], int64_t{0});
    ASYRA_ASSIGN_OR_RETURN(value, node.graph().Slice(value, dim, start, stop));
    before[dim] = std::max(before[dim], int64_t{0});
    after[dim] = std::max(after[dim], int64_t{0});
  }
  std::string mode = node.String("mode", "constant");
  if (value.shape() == node.In(0).shape() && before == after &&
      std::all_of(before.begin(), before.end(),
                  [](int64_t pad) { return pad == 0; })) {
    return node.Return(value);
  }
  return node.Return(node.graph().Add("pad", {value},
                                      {{"before", before},
                                       {"after", after},
                                       {"mode", mode},
                                       {"value", number}}));
}

}  // namespace asyra::onnx_import::ops
