#include "passes/shard/stripe_sequence.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "passes/shard/axis_roles.h"
#include "passes/shard/planned_time.h"
#include "passes/shard/stripes.h"

namespace asyra {
namespace {

// The share of the time in natural order below which stripes are worth it:
// schedules of both differ by more than a smaller gain.
constexpr double kPays = 0.97;

// The devices that share a sequence.
int64_t SequenceDevices(const Mesh& mesh) {
  int64_t devices = 1;
  for (const Mesh::Axis& axis : mesh.axes()) {
    if (RoleOf(axis.name) == AxisRole::kSequence) devices *= axis.size;
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

// Returns the time of a plan of the program, or why there is none.
absl::StatusOr<double> StripedUs(const Program& striped,
                                 const StripeOptions& options,
                                 const CostModel& costs) {
  ASYRA_ASSIGN_OR_RETURN(Program local, PlannedProgram(striped, options.plan,
                                                       options.pins, costs));
  if (HasOneRunEach(local)) return SerialUs(local, costs);
  return Invalid("rows of attention are sharded otherwise");
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
  int64_t devices = SequenceDevices(program.mesh);
  if (options.when == Stripes::kNever) return false;
  std::optional<Program> striped;
  if (devices > 1) {
    ASYRA_ASSIGN_OR_RETURN(striped, StripeSequence(program, devices));
  }
  bool asked = options.when == Stripes::kAlways;
  if (!striped.has_value()) {
    if (!asked) return false;
    return Invalid(
        "stripes are asked for: no axis of the mesh shards tokens, or no "
        "attention has rows that see different keys and a number of them that "
        "2 x {} devices divide",
        devices);
  }
  if (context.costs == nullptr && !asked) return false;
  if (context.costs == nullptr) {
    return Invalid("needs costs: there are none in PassContext::costs");
  }
  auto striped_us = StripedUs(*striped, options, *context.costs);
  if (asked) {
    ASYRA_RETURN_IF_ERROR(striped_us.status());
    context.Remark("tokens are striped over {} devices", devices);
    program = *std::move(striped);
    return true;
  }
  if (!striped_us.ok()) return false;
  // If it cannot be planned, plan_sharding reports the error.
  auto natural_us =
      PlannedUs(program, options.plan, options.pins, *context.costs);
  if (!natural_us.ok()) return false;
  bool pays = *striped_us < kPays * *natural_us;
  context.Remark(
      "tokens are {}striped over {} devices: by a sum over ops and collectives "
      "{} in stripes, {} in natural order",
      pays ? "" : "not ", devices, TimeText(*striped_us),
      TimeText(*natural_us));
  if (pays) program = *std::move(striped);
  return pays;
}

}  // namespace asyra
