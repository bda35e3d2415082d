#include "ir/ops/gradient.h"

#include "ir/support/check.h"

namespace asyra::ops {

ValueId Gradient::Op(std::string_view op, absl::Span<const ValueId> operands,
                     AttrMap attrs) {
  return ASYRA_VALUE(
      builder_.AddOne(op, operands, std::move(attrs), call_.name));
}

std::vector<ValueId> Gradient::Ops(std::string_view op,
                                   absl::Span<const ValueId> operands,
                                   AttrMap attrs) {
  return ASYRA_VALUE(builder_.Add(op, operands, std::move(attrs), call_.name));
}

ValueId Gradient::Scalar(double value, ValueId like) {
  return builder_.Constant(Tensor::FromDoubles(type(like).dtype, {}, {value}));
}

ValueId Gradient::Zeros(ValueId like) {
  Shape shape = type(like).shape();
  return Op("broadcast", {Scalar(0, like)},
            {{"shape", Ints(shape.begin(), shape.end())}});
}

ValueId Gradient::Cast(ValueId value, DType to) {
  return type(value).dtype == to ? value : Op("cast", {value}, {{"to", to}});
}

ValueId Gradient::SumTo(ValueId value, ValueId operand) {
  Shape have = type(value).shape(), want = type(operand).shape();
  if (have == want) return value;
  Ints dims;
  size_t lead = have.size() - want.size();
  for (size_t i = 0; i < have.size(); ++i) {
    if (i < lead || want[i - lead] != have[i]) {
      dims.push_back(static_cast<int64_t>(i));
    }
  }
  if (!dims.empty()) {
    AttrMap attrs = {{"dims", dims}, {"keep", true}};
    ValueId narrow = BeforeCast(value);
    if (narrow != kNoValue) attrs.Set("wide", true);
    value = Op("reduce_sum", {narrow == kNoValue ? value : narrow},
               std::move(attrs));
  }
  return lead > 0 ? Reshape(value, want) : value;
}

ValueId Gradient::BeforeCast(ValueId value) const {
  if (type(value).dtype != DType::kF32) return kNoValue;
  const std::vector<asyra::Op>& ops = builder_.program().ops;
  for (size_t i = ops.size(); i-- > 0;) {
    if (ops[i].results[0] != value) continue;
    if (ops[i].def->name != "cast") return kNoValue;
    DType from = type(ops[i].operands[0]).dtype;
    return IsFloat(from) && SizeOf(from) == 2 ? ops[i].operands[0] : kNoValue;
  }
  return kNoValue;
}

ValueId Gradient::Reshape(ValueId value, const Shape& shape) {
  return Op("reshape", {value}, {{"shape", Ints(shape.begin(), shape.end())}});
}

}  // namespace asyra::ops
