#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "ir/verify/verify_rules.h"

namespace asyra {
namespace {

absl::Status VerifyReads(const Program& program, const DefUse& def_use,
                         const HappensBefore& order, int index) {
  const Op& op = program.ops[index];
  for (ValueId value : op.operands) {
    int def = def_use.def[value];
    if (order.Computed(def, index)) continue;
    return OpError(
        program, op,
        fmt::format("reads %{} across streams without an order; it is defined "
                    "by {}",
                    program.value_name(value), Definer(program, def, value)));
  }
  return absl::OkStatus();
}

// Ranks agree on the order of one communicator only if it is one order.
absl::Status VerifyCommunicators(const Program& program) {
  absl::flat_hash_map<std::string, int> first;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (!op.is_collective()) continue;
    const AttrValue* value = op.attrs.Find("axes");
    if (value == nullptr || KindOf(*value) != AttrKind::kAxes) continue;
    AxisList axes = std::get<AxisList>(*value);
    // The same devices, however listed.
    std::sort(axes.begin(), axes.end());
    auto [at, fresh] = first.emplace(AxesToString(axes, program.mesh), i);
    const Op& other = program.ops[at->second];
    if (fresh || other.stream == op.stream) continue;
    return OpError(program, op,
                   fmt::format("collectives over {} must share one stream, an "
                               "earlier one is on {}: {}",
                               at->first, program.streams[other.stream],
                               ToString(program, other)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyStarts(const Program& program, const DefUse& def_use) {
  for (const Op& op : program.ops) {
    if (!op.start) continue;
    if (!op.is_collective()) {
      return OpError(
          program, op,
          fmt::format("{} is started but is no collective", op.def->name));
    }
    for (ValueId value : op.results) {
      // No op but a wait takes a future: the types say so.
      const auto& waits = def_use.uses[value];
      if (waits.size() == 1) continue;
      if (waits.empty()) {
        return OpError(
            program, op,
            fmt::format("%{} is never waited for", program.value_name(value)));
      }
      return OpError(program, op,
                     fmt::format("%{} is waited for {} times, again by {}",
                                 program.value_name(value), waits.size(),
                                 ToString(program, program.ops[waits[1]])));
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyStreams(const Program& program, const DefUse& def_use,
                           const HappensBefore& order) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (program.ops[i].stream == kNoStream) {
      return OpError(program, program.ops[i], "it has no stream");
    }
    ASYRA_RETURN_IF_ERROR(
        VerifyReads(program, def_use, order, static_cast<int>(i)));
  }
  return VerifyCommunicators(program);
}

}  // namespace asyra
