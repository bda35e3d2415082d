#include "ir/plans/plan_meaning.h"

#include "absl/algorithm/container.h"
#include "ir/support/status.h"

namespace asyra {

absl::Status PlanMeaning::Check(const PlanStep& step) const {
  switch (step.kind) {
    case PlanStep::kPiece:
      return CheckPiece(step);
    case PlanStep::kCopy:
      return CheckCopy(step.reads[0], step.write);
    case PlanStep::kSum:
      return CheckSum(step);
    case PlanStep::kExchange:
      return CheckExchange(step);
    default:
      return absl::OkStatus();
  }
}

absl::Status PlanMeaning::CheckSame(const PlanRegion& read,
                                    const PlanRegion& write) const {
  int from = plan_.buffer(read).value, to = plan_.buffer(write).value;
  if (same_[from] != same_[to]) {
    return Invalid("%{} is another value than %{}", from, to);
  }
  if (read.box == write.box) return absl::OkStatus();
  return Invalid("it reads {} and writes {}", ToString(read.box),
                 ToString(write.box));
}

absl::Status PlanMeaning::CheckCopy(const PlanRegion& read,
                                    const PlanRegion& write) const {
  ASYRA_RETURN_IF_ERROR(CheckSame(read, write));
  RankSet from = plan_.buffer(read).summands;
  RankSet to = plan_.buffer(write).summands;
  if (from == to) return absl::OkStatus();
  return Invalid("it moves the summands of ranks {:#x} to those of {:#x}", from,
                 to);
}

absl::Status PlanMeaning::CheckExchange(const PlanStep& step) const {
  for (size_t i = 0; i < step.reads.size(); ++i) {
    ASYRA_RETURN_IF_ERROR(CheckCopy(step.reads[i], step.writes[i]));
  }
  return absl::OkStatus();
}

absl::Status PlanMeaning::CheckSum(const PlanStep& step) const {
  std::vector<RankSet> parts;
  for (const PlanRegion& read : step.reads) {
    ASYRA_RETURN_IF_ERROR(CheckSame(read, step.write));
    parts.push_back(plan_.buffer(read).summands);
  }
  return CheckAddedSummands(parts, step);
}

absl::Status PlanMeaning::CheckAddedSummands(absl::Span<const RankSet> parts,
                                             const PlanStep& step) const {
  RankSet added = 0;
  for (RankSet summands : parts) {
    if ((added & summands) != 0) {
      return Invalid("it adds summands of ranks {:#x} twice", added & summands);
    }
    added |= summands;
  }
  if (added == plan_.buffer(step.write).summands) return absl::OkStatus();
  return Invalid("it adds the summands of ranks {:#x}, not of {:#x}", added,
                 plan_.buffer(step.write).summands);
}

// The boxes of operands and result are one part of each factor of the op: in
// a factor that the result lacks, all that the rank holds.
absl::Status PlanMeaning::CheckPiece(const PlanStep& step) const {
  if (step.op < 0 || step.op >= static_cast<int>(plan_.body.ops.size())) {
    return Invalid("there is no op {}", step.op);
  }
  const BodyOp& op = plan_.body.ops[step.op];
  bool adds = AddsToResult(plan_, step);
  if (op.def->collective != CollectiveKind::kNone ||
      (step.reads.size() != op.operands.size() && !adds)) {
    return Invalid("it cannot be computed from {} boxes", step.reads.size());
  }
  int result = plan_.body.num_operands + step.op;
  std::vector<Type> types;
  for (const Type& type : plan_.types) types.push_back(type.Global());
  ASYRA_ASSIGN_OR_RETURN(
      AxisRule rule, AxisRuleOf(BodyCall(plan_.body, step.op, types).call()));
  std::map<FactorId, Part> part;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const PlanRegion& read = step.reads[k];
    if (same_[plan_.buffer(read).value] != same_[op.operands[k]]) {
      return Invalid("operand {} is %{}, not %{}", k, op.operands[k],
                     plan_.buffer(read).value);
    }
    ASYRA_RETURN_IF_ERROR(
        CheckSummands(read, op.operands[k], fmt::format("operand {}", k)));
    ASYRA_RETURN_IF_ERROR(CheckPart(rule, rule.operands[k], read,
                                    op.operands[k], rule.results[0], &part));
  }
  if (adds) {
    ASYRA_RETURN_IF_ERROR(CheckAdded(step, result));
  } else if (plan_.buffer(step.write).value != result) {
    return Invalid("it writes %{}, its result is %{}",
                   plan_.buffer(step.write).value, result);
  } else {
    ASYRA_RETURN_IF_ERROR(CheckSummands(step.write, result, "the result"));
  }
  return CheckPart(rule, rule.results[0], step.write, result, rule.results[0],
                   &part);
}

absl::Status PlanMeaning::CheckAdded(const PlanStep& step, int result) const {
  const BodyOp& op = plan_.body.ops[step.op];
  if (op.def->fusable != Fusable::kMatmul) {
    return Invalid("{} adds nothing to its result", op.def->name);
  }
  if (plan_.types[result].partial.empty()) {
    return Invalid("%{} is no sum over ranks", result);
  }
  if (same_[plan_.buffer(step.write).value] != same_[result]) {
    return Invalid("it writes %{}, its result is %{}",
                   plan_.buffer(step.write).value, result);
  }
  const PlanRegion& added = step.reads.back();
  ASYRA_RETURN_IF_ERROR(CheckSame(added, step.write));
  return CheckAddedSummands(
      {OnlyRank(step.write.rank), plan_.buffer(added).summands}, step);
}

absl::Status PlanMeaning::CheckSummands(const PlanRegion& region, int value,
                                        std::string_view what) const {
  RankSet want = plan_.types[value].partial.empty() ? AllRanks(plan_.ranks)
                                                    : OnlyRank(region.rank);
  if (plan_.buffer(region).summands == want) return absl::OkStatus();
  return Invalid("{} has the summands of ranks {:#x}, not of {:#x}", what,
                 plan_.buffer(region).summands, want);
}

absl::Status PlanMeaning::CheckPart(const AxisRule& rule,
                                    const OperandFactors& dims,
                                    const PlanRegion& region, int value,
                                    const OperandFactors& result,
                                    std::map<FactorId, Part>* part) const {
  Box held = BoxOf(plan_.types[value], region.rank, plan_.ranks);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].empty()) continue;
    int64_t inner = 1;
    for (size_t i = 1; i < dims[d].size(); ++i) {
      inner *= rule.factors[dims[d][i]].size;
    }
    int64_t start = region.box.start[d], size = region.box.size[d];
    FactorId id = dims[d][0];
    const Factor& factor = rule.factors[id];
    bool parallel = factor.kind == FactorKind::kParallel &&
                    absl::c_any_of(result, [&](const DimFactors& of) {
                      return absl::c_linear_search(of, id);
                    });
    if (!parallel && (start != held.start[d] || size != held.size[d])) {
      return Invalid(
          "dim {} of %{} is {}:{}, an op that does not compute its parts "
          "separately needs {}:{}",
          d, value, start, start + size, held.start[d],
          held.start[d] + held.size[d]);
    }
    if (inner == 0 || start % inner != 0 || size % inner != 0) {
      return Invalid("dim {} of %{} is cut inside its outermost factor", d,
                     value);
    }
    Part mine = {start / inner, size / inner};
    auto [at, fresh] = part->try_emplace(id, mine);
    if (fresh || at->second == mine || factor.size == 1) continue;
    return Invalid("dim {} of %{} is part {}:{} of a factor, elsewhere {}:{}",
                   d, value, mine.first, mine.first + mine.second,
                   at->second.first, at->second.first + at->second.second);
  }
  return absl::OkStatus();
}

}  // namespace asyra
