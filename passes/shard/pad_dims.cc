#include "passes/shard/pad_dims.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/support/round_up.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "passes/shard/axis_roles.h"
#include "passes/shard/pad_dimensions.h"
#include "passes/shard/padded_sizes.h"
#include "passes/shard/planned_time.h"

namespace asyra {
namespace {

// The devices over which weights may be sharded.
int64_t ModelDevices(const Mesh& mesh) {
  int64_t devices = 1;
  for (const Mesh::Axis& axis : mesh.axes()) {
    AxisRole role = RoleOf(axis.name);
    if (role == AxisRole::kModel || role == AxisRole::kFree) {
      devices *= axis.size;
    }
  }
  return devices;
}

// 16-bit matmuls read rows fast that begin at multiples of 16 bytes. A
// hundredth is little to pay for that.
constexpr int64_t kAligned = 8, kManyTimes = 100;

// Sizes of weights that `devices` do not divide, or whose parts have rows of an
// odd number of 16-bit elements (Work::odd_rows), and what they become.
std::map<int64_t, int64_t> SizesToPad(const Program& program, int64_t devices) {
  std::map<int64_t, int64_t> sizes;
  for (const Input& input : program.inputs) {
    if (!IsWeight(input)) continue;
    const Type& type = program.type(input.value);
    for (const Dim& dim : type.dims) {
      int64_t part = RoundUp(dim.size, devices) / devices;
      bool aligns = SizeOf(type.dtype) == 2 && type.rank() > 1 &&
                    dim.size >= kManyTimes * kAligned * devices;
      if (dim.size <= devices ||
          (dim.size % devices == 0 && !(aligns && part % 2 == 1))) {
        continue;
      }
      int64_t to = RoundUp(dim.size, aligns ? kAligned * devices : devices);
      sizes[dim.size] = std::max(sizes[dim.size], to);
    }
  }
  return sizes;
}

// The weights of `program` that have a dimension of that size.
std::string WeightNames(const Program& program, int64_t size) {
  std::string names;
  int count = 0;
  for (const Input& input : program.inputs) {
    if (input.stored.empty()) continue;
    for (int64_t stored : input.stored) {
      if (stored != size) continue;
      if (count++ == 0) names = "%" + program.value_name(input.value);
      break;
    }
  }
  return count > 1 ? fmt::format("{} and {} more", names, count - 1) : names;
}

// Decides whether to pad, with a remark.
absl::StatusOr<bool> Pays(const Program& whole, const Program& padded,
                          int64_t size, const PadOptions& options,
                          PassContext& context) {
  int64_t devices = ModelDevices(whole.mesh);
  std::string what =
      fmt::format("{} elements of {}", size, WeightNames(padded, size));
  if (devices > 1) what += fmt::format(" over {} devices", devices);
  if (options.always) {
    context.Remark("{} are padded", what);
    return true;
  }
  if (context.costs == nullptr) {
    return Invalid("needs costs: there are none in PassContext::costs");
  }
  // If neither can be planned, plan_sharding reports the error.
  auto whole_us = PlannedUs(whole, options.plan, options.pins, *context.costs);
  auto padded_us =
      PlannedUs(padded, options.plan, options.pins, *context.costs);
  if (!padded_us.ok()) return false;
  bool pays = !whole_us.ok() || *padded_us < *whole_us;
  context.Remark(
      "{} are {}padded: by a sum over ops and collectives {} "
      "with padding, {} without",
      what, pays ? "" : "not ", TimeText(*padded_us),
      whole_us.ok() ? TimeText(*whole_us) : "impossible");
  return pays;
}

}  // namespace

absl::StatusOr<bool> PadDims(Program& program, const PadOptions& options,
                             PassContext& context) {
  if (!options.sizes.empty()) {
    return PadSizes(program, options.sizes, options.trained);
  }
  int64_t devices = ModelDevices(program.mesh);
  bool changed = false;
  for (auto [size, to] : SizesToPad(program, devices)) {
    ASYRA_ASSIGN_OR_RETURN(std::optional<Program> padded,
                           PadDimensions(program, size, to, options.trained));
    if (!padded.has_value()) continue;
    ASYRA_ASSIGN_OR_RETURN(bool pays,
                           Pays(program, *padded, size, options, context));
    if (!pays) continue;
    program = *std::move(padded);
    changed = true;
  }
  return changed;
}

}  // namespace asyra
