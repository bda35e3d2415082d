#include "passes/shard/decompose_reduce_scatter.h"

#include "ir/builder.h"
#include "ir/support/status.h"
#include "simulator/cost/cost_model.h"

namespace asyra {
namespace {

class Decomposer {
 public:
  // `costs` null: on any machine.
  Decomposer(const Program& from, const CostModel* costs)
      : from_(from),
        costs_(costs),
        builder_(Builder::Like(from)),
        map_(from.values.size(), kNoValue) {}

  absl::StatusOr<Program> Run() {
    builder_.CopyInputs(from_, &map_);
    for (const Op& op : from_.ops) {
      bool scatters = op.def->collective == CollectiveKind::kReduceScatter;
      scatters_ += scatters;
      ASYRA_RETURN_IF_ERROR(scatters && Fits(op)
                                ? Decompose(op)
                                : builder_.Copy(from_, op, &map_));
    }
    builder_.CopyOutputs(from_, map_);
    return std::move(builder_).Finish();
  }

  int scatters() const { return scatters_; }
  int decomposed() const { return decomposed_; }

 private:
  bool Fits(const Op& op) const {
    const AxisList& axes = op.attrs.Get<AxisList>("axes");
    return op.operands.size() == 1 &&
           IsFloat(from_.type(op.operands[0]).dtype) &&
           from_.mesh.size(axes) > 1 &&
           (costs_ == nullptr ||
            CopyEnginesReach(costs_->machine(), costs_->SpanOf(axes)));
  }

  absl::Status Decompose(const Op& op) {
    const std::string& name = from_.value_name(op.results[0]);
    int rank = from_.type(op.operands[0]).rank();
    int64_t dim = NormalizeDim(op.attrs.Int("dim"), rank);
    const AxisList& axes = op.attrs.Get<AxisList>("axes");
    ASYRA_ASSIGN_OR_RETURN(
        ValueId stack, builder_.AddOne("stack_partial", {map_[op.operands[0]]},
                                       {{"axes", axes}}, name + ".stack"));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId parts,
        builder_.AddOne("all_to_all", {stack},
                        {{"from", int64_t{0}},
                         {"to", dim + 1},
                         {"axes", axes},
                         {"ctas", op.attrs.Int("ctas")},
                         {"transport", *op.attrs.Find("transport")}},
                        name + ".parts"));
    ASYRA_ASSIGN_OR_RETURN(
        map_[op.results[0]],
        builder_.AddOne("reduce_sum", {parts},
                        {{"dims", Ints{0}}, {"keep", false}}, name));
    ++decomposed_;
    return absl::OkStatus();
  }

  const Program& from_;
  const CostModel* costs_;
  Builder builder_;
  std::vector<ValueId> map_;  // from a value of `from_` to one of the new
  int scatters_ = 0, decomposed_ = 0;
};

}  // namespace

absl::StatusOr<bool> DecomposeReduceScatter(Program& program,
                                            const PassOptions& options,
                                            PassContext& context) {
  bool copyable = options.Bool("copyable");
  if (copyable && context.costs == nullptr) {
    return Invalid(
        "copyable needs costs of a machine: there are none in "
        "PassContext::costs");
  }
  Decomposer decomposer(program, copyable ? context.costs : nullptr);
  ASYRA_ASSIGN_OR_RETURN(Program decomposed, decomposer.Run());
  if (decomposer.decomposed() == 0) {
    context.Remark(
        "decompose_reduce_scatter: none of {} is of one value of floats{}",
        decomposer.scatters(),
        copyable ? ", over devices that copy engines connect" : "");
    return false;
  }
  context.Remark(
      "decompose_reduce_scatter: {} of {} made an all_to_all and a sum",
      decomposer.decomposed(), decomposer.scatters());
  program = std::move(decomposed);
  return true;
}

}  // namespace asyra
