#include "passes/search/decisions.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "ir/support/status.h"
#include "passes/analysis/name_list.h"
#include "passes/schedule/transport/fuse_reductions.h"
#include "passes/schedule/transport/sm_margin.h"
#include "passes/schedule/transport/stream_layout.h"
#include "passes/train/step_phase.h"

namespace asyra {
namespace {

bool HasPersistentGemms(const Program&, const Machine& machine) {
  return machine.gpu.gemm_persistent;
}

bool HasMeasurements(const Program&, const Machine& machine) {
  return machine.table != nullptr;
}

bool HasPhases(const Program& program, const Machine&) {
  return IsTrainingStep(program);
}

std::vector<Setting> Layouts() {
  std::vector<Setting> settings;
  for (const StreamLayout& layout : OtherLayouts()) {
    settings.push_back({ToString(layout), PassOf(layout)});
  }
  return settings;
}

std::vector<Setting> SmMargins() {
  std::vector<Setting> settings;
  for (int sms : kSmMargins) {
    settings.push_back({fmt::format(", SM margin {}", sms),
                        MakePass("leave_sm_margin", {{"sms", int64_t{sms}}})});
  }
  return settings;
}

std::vector<Setting> Overlaps(bool measured) {
  auto pass = [&](std::string_view option, bool value) {
    return MakePass("form_overlaps",
                    {{std::string(option), value}, {"measured", measured}});
  };
  return {{", overlaps", pass("joined", false)},
          {", overlaps of gathers", pass("reductions", false)},
          {", overlaps of reductions", pass("gathers", false)},
          {", joined overlaps of reductions", pass("joined", true)}};
}

}  // namespace

absl::Span<const Decision> Decisions() {
  static const auto* decisions = new std::vector<Decision>{
      {.pass = "lay_out_streams",
       .settings = Layouts(),
       .moves_ops = true,
       .costs_memory = true,
       .tried = 3,
       .kept = 2},
      // A candidate without tiles waits more, as with margins below, and is as
      // fast as tiled ones when its collectives need no SMs.
      {.pass = "use_copy_engines",
       .settings = {{", copy engines", MakePass("use_copy_engines")}},
       .best_of_each = {"tile", "lay_out_streams"},
       .kept = 3},
      // The candidate that waits most for SMs gains most by a margin, and may
      // be far from the fastest without one.
      {.pass = "leave_sm_margin",
       .settings = SmMargins(),
       .is_for = HasPersistentGemms,
       .best_of_each = {"tile", "use_copy_engines"},
       .kept = 2},
      // All tiles of forward hide more where forward waits much, as for
      // experts.
      {.pass = "separate_phases",
       .settings = {{", phases apart", MakePass("separate_phases")}},
       .moves_ops = true,
       .changes_ops = true,
       .is_for = HasPhases,
       .tried = 1,
       .kept = 1},
      // A reduction that is not hidden costs least in one kernel; tiles would
      // cut it.
      {.pass = "fuse_reductions",
       .settings = {{", reductions in one kernel with their rows",
                     MakePass("fuse_reductions")}},
       .moves_ops = true,
       .changes_ops = true,
       .is_for = HasReductionsInReach,
       .tried = 1,
       .kept = 1,
       .is_extra = true},
      // On two H200 estimates of what plans gain in a step were 3 to 8 % of it
      // too good.
      {.pass = "form_overlaps",
       .settings = Overlaps(/*measured=*/true),
       .moves_ops = true,
       .changes_ops = true,
       .is_for = HasMeasurements,
       .tried = 1,
       .kept = 2,
       .is_extra = true,
       .when = Decision::kUnlessOpened,
       .least_gain = 0.08},
      {.pass = "form_overlaps",
       .settings = Overlaps(/*measured=*/false),
       .moves_ops = true,
       .changes_ops = true,
       .tried = 1,
       .kept = 2,
       .is_extra = true,
       .when = Decision::kOpened},
  };
  return *decisions;
}

absl::StatusOr<std::vector<std::string>> DecisionsNamed(
    const std::string& text) {
  std::vector<std::string> known;
  for (const Decision& decision : Decisions()) {
    known.emplace_back(decision.pass);
  }
  std::vector<std::string> names = NamesIn(text);
  for (const std::string& name : names) {
    if (absl::c_linear_search(known, name)) continue;
    return Invalid("'{}' is no decision of the search, which are {}", name,
                   absl::StrJoin(known, ", "));
  }
  return names;
}

}  // namespace asyra
