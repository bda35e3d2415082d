#include "passes/shard/stripe_sequence.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "passes/analysis/shorten.h"
#include "passes/shard/axis_roles.h"
#include "passes/shard/planned_time.h"
#include "passes/shard/stripes.h"

namespace asyra {
namespace {

// Layers of the program on which it is decided.
constexpr int kLayers = 2;

// The devices that may share the rows of a sequence: those of the first axis of
// tokens, of the first two, ...
std::vector<int64_t> SequenceDevices(const Mesh& mesh) {
  std::vector<int64_t> devices;
  for (const Mesh::Axis& axis : mesh.axes()) {
    if (RoleOf(axis.name) != AxisRole::kSequence || axis.size < 2) continue;
    devices.push_back((devices.empty() ? 1 : devices.back()) * axis.size);
  }
  return devices;
}

// Returns whether each device has one run of each attention's rows.
bool HasOneRunEach(const Program& local) {
  return absl::c_all_of(local.ops, [&](const Op& op) {
    if (op.def->name != "attention") return true;
    const Type& rows = local.type(op.operands[0]);
    int64_t runs = std::abs(op.attrs.Int("runs"));
    return runs == 0 || local.mesh.size(rows.dims[1].axes) == runs;
  });
}

struct Striped {
  int64_t devices = 0;
  double us = 0;
};

// Returns the cheapest of the striped forms, or why there is none.
absl::StatusOr<Striped> CheapestStripes(const Program& program,
                                        const StripeOptions& options,
                                        const CostModel& costs) {
  std::optional<Striped> best;
  absl::Status why = Invalid(
      "no axis of the mesh shards tokens, or no attention has rows that see "
      "different keys and a number of them that twice the devices divide");
  for (int64_t devices : SequenceDevices(program.mesh)) {
    ASYRA_ASSIGN_OR_RETURN(std::optional<Program> striped,
                           StripeSequence(program, devices));
    if (!striped.has_value()) continue;
    absl::StatusOr<Program> local =
        PlannedProgram(*striped, options.plan, options.pins, costs);
    why = !local.ok() ? local.status()
                      : Invalid("rows of attention are sharded otherwise");
    if (!local.ok() || !HasOneRunEach(*local)) continue;
    double us = SerialUs(*local, costs);
    if (best.has_value() && best->us <= us) continue;
    best = Striped{devices, us};
  }
  if (!best.has_value()) return why;
  return *std::move(best);
}

}  // namespace

absl::StatusOr<Stripes> ReadStripes(std::string_view text) {
  if (text == "never") return Stripes::kNever;
  if (text == "auto") return Stripes::kAuto;
  if (text == "always") return Stripes::kAlways;
  return Invalid("stripes are never, auto or always, not '{}'", text);
}

absl::StatusOr<bool> StripeSequencePass(Program& program,
                                        const StripeOptions& options,
                                        PassContext& context) {
  bool asked = options.when == Stripes::kAlways;
  if (options.when == Stripes::kNever) return false;
  if (context.costs == nullptr && !asked) return false;
  if (context.costs == nullptr) {
    return Invalid("needs costs: there are none in PassContext::costs");
  }
  // Pins may hold values of layers that are cut.
  const Program trial =
      options.pins.empty() ? Shorten(program, kLayers) : program;
  absl::StatusOr<Striped> striped =
      CheapestStripes(trial, options, *context.costs);
  auto take = [&]() -> absl::StatusOr<bool> {
    ASYRA_ASSIGN_OR_RETURN(std::optional<Program> whole,
                           StripeSequence(program, striped->devices));
    program = *std::move(whole);
    return true;
  };
  if (asked) {
    if (!striped.ok()) {
      return Annotate(striped.status(), "stripes are asked for");
    }
    context.Remark("tokens are striped over {} devices", striped->devices);
    return take();
  }
  if (!striped.ok()) return false;
  // If it cannot be planned, plan_sharding reports the error.
  auto natural_us =
      PlannedUs(trial, options.plan, options.pins, *context.costs);
  if (!natural_us.ok()) return false;
  bool pays = striped->us < kFormPays * *natural_us;
  context.Remark(
      "tokens are {}striped over {} devices: by a sum over ops and collectives "
      "of a few layers {} in stripes, {} in natural order",
      pays ? "" : "not ", striped->devices, TimeText(striped->us),
      TimeText(*natural_us));
  return pays ? take() : false;
}

}  // namespace asyra
