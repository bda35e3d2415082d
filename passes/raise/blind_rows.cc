#include "passes/raise/blind_rows.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "ir/ops/attention.h"
#include "passes/rewrite/rewriter.h"

namespace asyra {
namespace {

std::vector<Type> TypesOf(const Rewriter& to, const Op& op) {
  std::vector<Type> types;
  for (ValueId operand : op.operands) types.push_back(to.type(operand));
  return types;
}

// The mean of v [B, T, G, E] over its keys for each of H heads, [B, 1, H, E].
absl::StatusOr<ValueId> MeanOfValues(Rewriter& to, ValueId v, int64_t heads) {
  const Type type = to.type(v);
  const int64_t groups = type.size(2);
  const bool wide = Is16Bit(type.dtype);
  ASYRA_ASSIGN_OR_RETURN(
      ValueId mean,
      to.Add("reduce_sum", {v}, {{"dims", Ints{1}}, {"wide", wide}}));
  ASYRA_ASSIGN_OR_RETURN(
      mean,
      to.Add("mul", {mean, to.Constant(Tensor::FromDoubles(
                               to.type(mean).dtype, {},
                               {1 / static_cast<double>(type.size(1))}))}));
  if (wide) {
    ASYRA_ASSIGN_OR_RETURN(mean, to.Add("cast", {mean}, {{"to", type.dtype}}));
  }
  if (groups == heads) return mean;
  const int64_t b = type.size(0), e = type.size(3);
  ASYRA_ASSIGN_OR_RETURN(mean, to.Reshape(mean, {b, 1, groups, 1, e}));
  ASYRA_ASSIGN_OR_RETURN(
      mean, to.Add("broadcast", {mean},
                   {{"shape", Ints{b, 1, groups, heads / groups, e}}}));
  return to.Reshape(mean, {b, 1, heads, e});
}

absl::StatusOr<ValueId> AverageRows(Rewriter& to, const Rewriter::NewOp& op) {
  if (!op.is("attention") || op.op.attrs.Bool("log_sums")) return kNoValue;
  const double hidden = op.op.attrs.Float("hidden");
  if (!std::isfinite(hidden) || hidden > ops::kAsGoodAsHidden) return kNoValue;
  std::vector<Type> types = TypesOf(to, op.op);
  ops::AttentionExtras extras(types, ops::kFirstExtra);
  if (extras.mask < 0 || types[extras.mask].dtype != DType::kBool) {
    return kNoValue;
  }
  AttrMap attrs = op.op.attrs;
  attrs.Erase("hidden");
  attrs.Erase("empty_is_nan");
  // A sink takes all of the weight in such a row, which gives 0 either way.
  if (extras.sinks >= 0) return to.Add("attention", op.op.operands, attrs);
  if (extras.lengths >= 0 || extras.starts >= 0 || types[0].size(1) == 1) {
    return kNoValue;
  }
  return AverageRowsWithoutKey(to, op.op.operands, attrs);
}

constexpr Rewriter::Rule kRules[] = {AverageRows};

}  // namespace

absl::StatusOr<ValueId> AverageRowsWithoutKey(
    Rewriter& to, absl::Span<const ValueId> operands, AttrMap attrs) {
  attrs.Set("log_sums", true);
  ASYRA_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                         to.AddAll("attention", operands, attrs));
  const Type rows = to.type(operands[0]);  // [B, S, H, D]
  ASYRA_ASSIGN_OR_RETURN(ValueId blind, to.Add("is_inf", {results[1]}));
  ASYRA_ASSIGN_OR_RETURN(blind, to.Transpose(blind, Ints{0, 2, 1}));
  ASYRA_ASSIGN_OR_RETURN(
      blind, to.Reshape(blind, {rows.size(0), rows.size(1), rows.size(2), 1}));
  ASYRA_ASSIGN_OR_RETURN(ValueId mean,
                         MeanOfValues(to, operands[2], rows.size(2)));
  return to.Add("select", {blind, mean, results[0]});
}

absl::StatusOr<bool> AverageBlindRows(Program& program, const PassOptions&,
                                      PassContext&) {
  return Rewrite(program, kRules);
}

}  // namespace asyra
