// Runs of a dimension in the order of stripes (passes/shard/stripes.h), and
// back in natural order.
#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

absl::StatusOr<std::vector<Type>> InferStripe(const OpCall& call) {
  const Type& x = call.operands[0];
  ASYRA_ASSIGN_OR_RETURN(int dim, RequireDim(call, "dim", x.rank()));
  int64_t pairs = call.attrs.Int("pairs");
  if (pairs < 1 || x.size(dim) / 2 % pairs != 0 || x.size(dim) % 2 != 0) {
    return Invalid("dim {} of size {} is not {} pairs of runs", dim,
                   x.size(dim), pairs);
  }
  return std::vector<Type>{x};
}

absl::StatusOr<AxisRule> StripeAxes(const OpCall& call) {
  int rank = call.operands[0].rank();
  int dim = NormalizeDim(call.attrs.Int("dim"), rank);
  std::string from = DimSpec(0, rank, {dim});
  return ParseAxisRule(from + " -> " + from, call.operands, call.results,
                       Linearity::kJoint);
}

// Moves runs; `back`: to their natural places.
absl::Status MoveRuns(const RefCall& call, bool back) {
  const Tensor& x = call.operands[0];
  int dim = NormalizeDim(call.attrs.Int("dim"), x.rank());
  int64_t runs = 2 * call.attrs.Int("pairs"), run = x.size(dim) / runs;
  std::vector<Tensor> parts(runs);
  for (int64_t place = 0; place < runs; ++place) {
    int64_t natural = place % 2 == 0 ? place / 2 : runs - 1 - place / 2;
    parts[back ? natural : place] =
        x.Slice(dim, (back ? place : natural) * run, run);
  }
  call.results[0] = Tensor::Concat(parts, dim);
  return absl::OkStatus();
}

OpDef Define(bool back) {
  return {
      .name = back ? "unstripe" : "stripe",
      .summary =
          back ? "undoes stripe"
               : "`dim` as 2 * pairs runs, in the order 0, 2 * pairs - 1, 1, "
                 "2 * pairs - 2, ...",
      .operands = {{"x"}},
      .attrs = {{"dim", AttrKind::kInt, "dimension"},
                {"pairs", AttrKind::kInt, "half the number of runs"}},
      .infer = InferStripe,
      .axes = StripeAxes,
      .work = MoveWork,
      .vjp = back ? Vjp<[](Gradient& g) {
        return Gradients{g.Op("stripe", {g.dy()}, g.attrs())};
      }>
                  : Vjp<[](Gradient& g) {
                      return Gradients{g.Op("unstripe", {g.dy()}, g.attrs())};
                    }>,
      .reference =
          back ? [](const RefCall& call) { return MoveRuns(call, true); }
               : [](const RefCall& call) { return MoveRuns(call, false); },
      .samples = {{back ? "unstripe(f32[2,8,3]) {dim=1, pairs=2}"
                        : "stripe(f32[2,8,3]) {dim=1, pairs=2}"},
                  {back ? "unstripe(i64[12]) {dim=-1, pairs=3}"
                        : "stripe(i64[12]) {dim=-1, pairs=3}"},
                  {back ? "unstripe(bf16[12,4]) {dim=0, pairs=6}"
                        : "stripe(bf16[12,4]) {dim=0, pairs=6}"}}};
}

}  // namespace

std::vector<OpDef> StripeOps() { return {Define(false), Define(true)}; }

}  // namespace asyra::ops
