#include "passes/shard/plan_options.h"

#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "ir/support/status.h"
#include "passes/analysis/int_option.h"

namespace asyra {
namespace {

// "dp,sp": axes of the mesh.
absl::StatusOr<AxisList> ReadAxes(const std::string& text, const Mesh& mesh) {
  AxisList axes;
  std::vector<std::string> names = absl::StrSplit(text, ',', absl::SkipEmpty());
  for (const std::string& name : names) {
    axes.push_back(mesh.Find(name));
    if (axes.back() < 0) {
      return Invalid("experts: the mesh {} has no axis '{}'", ToString(mesh),
                     name);
    }
  }
  return axes;
}

absl::StatusOr<TpStrategy> ReadTpStrategy(const std::string& text) {
  if (text == "auto") return TpStrategy::kAny;
  if (text == "sequence") return TpStrategy::kSequence;
  if (text == "replicated") return TpStrategy::kReplicated;
  return Invalid("tp_strategy is '{}'; known are auto, sequence, replicated",
                 text);
}

absl::StatusOr<EpStrategy> ReadEpStrategy(const std::string& text) {
  if (text == "auto") return EpStrategy::kAny;
  if (text == "all_to_all") return EpStrategy::kAllToAll;
  if (text == "all_gather") return EpStrategy::kAllGather;
  return Invalid("ep_strategy is '{}'; known are all_to_all, all_gather, auto",
                 text);
}

}  // namespace

absl::StatusOr<std::optional<int>> ReadZero(const std::string& text) {
  if (text == "auto") return std::nullopt;
  if (text.size() == 1 && text[0] >= '0' && text[0] <= '3') {
    return text[0] - '0';
  }
  return Invalid("zero is '{}'; known are auto, 0, 1, 2, 3", text);
}

std::vector<AttrDef> PlanOptionDefs(std::vector<AttrDef> more) {
  more.push_back({"beam", AttrKind::kInt, "states kept an op", int64_t{512}});
  more.push_back({"pins", AttrKind::kString,
                  "values fixed by name, as REGEX=0@dp,1@tp;REGEX=whole",
                  std::string()});
  more.push_back({"experts", AttrKind::kString,
                  "axes that shard experts beside ep, as dp,sp",
                  std::string()});
  more.push_back({"tp_strategy", AttrKind::kString,
                  "norms under tp: sequence (sharded), replicated, or auto",
                  std::string("auto")});
  more.push_back({"ep_strategy", AttrKind::kString,
                  "tokens to experts: all_to_all, all_gather, or auto",
                  std::string("all_to_all")});
  return more;
}

absl::StatusOr<PlanOptions> ReadPlanOptions(const PassOptions& options,
                                            const Program& program,
                                            const PassContext& context) {
  PlanOptions plan;
  plan.costs.model = context.costs;
  plan.dim_names = context.dim_names;
  ASYRA_ASSIGN_OR_RETURN(plan.beam, IntOption(options, "beam"));
  if (plan.beam < 1) {
    return Invalid("beam is {}, it must be at least 1", plan.beam);
  }
  ASYRA_ASSIGN_OR_RETURN(
      plan.expert_axes,
      ReadAxes(options.Get<std::string>("experts"), program.mesh));
  ASYRA_ASSIGN_OR_RETURN(
      plan.tp_strategy,
      ReadTpStrategy(options.Get<std::string>("tp_strategy")));
  ASYRA_ASSIGN_OR_RETURN(
      plan.ep_strategy,
      ReadEpStrategy(options.Get<std::string>("ep_strategy")));
  return plan;
}

}  // namespace asyra
