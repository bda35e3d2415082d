#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "ir/ops/attention_places.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "simulator/report/profile.h"

namespace asyra {
namespace {

struct Interval {
  double from, to;
};

// Length of the union of intervals that ascend by `from`.
double UnionLength(const std::vector<Interval>& intervals) {
  double length = 0, end = 0;
  bool any = false;
  for (const Interval& interval : intervals) {
    double from = any ? std::max(interval.from, end) : interval.from;
    length += std::max(0.0, interval.to - from);
    end = any ? std::max(end, interval.to) : interval.to;
    any = true;
  }
  return length;
}

std::vector<Interval> Joined(std::vector<Interval> a,
                             const std::vector<Interval>& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::stable_sort(
      a.begin(), a.end(),
      [](const Interval& x, const Interval& y) { return x.from < y.from; });
  return a;
}

// Returns how many devices have different parts of what an op reads.
double DevicesOf(const Program& program, const Op& op) {
  std::set<AxisId> axes;
  for (ValueId operand : op.operands) {
    for (const Dim& dim : program.type(operand).dims) {
      axes.insert(dim.axes.begin(), dim.axes.end());
    }
  }
  double devices = 1;
  for (AxisId axis : axes) {
    devices *= static_cast<double>(program.mesh.size(axis));
  }
  return devices;
}

// Returns the flops of an op once, however its devices share them.
Work WorkOfAllDevices(const Program& program, const Op& op) {
  std::vector<Type> operands = program.OperandTypes(op);
  std::vector<Type> results = program.ResultTypes(op);
  if (ops::HasKeyShards(op.attrs)) {
    // Each device's rows see one shard of the keys, which is no op of all.
    Work work = WorkOf({*op.def, op.attrs, operands, results}, program.mesh);
    work.flops *= DevicesOf(program, op);
    return work;
  }
  for (Type& type : operands) type = type.Global();
  for (Type& type : results) type = type.Global();
  return WorkOf({*op.def, op.attrs, operands, results}, Mesh());
}

}  // namespace

double ModelFlopUtilization(const Program& program, const Machine& machine,
                            double makespan_us) {
  double peak_us = 0;  // of one device that does all of it at its peak
  for (const Op& op : program.ops) {
    if (op.is_collective() || op.operands.empty()) continue;
    Work work = WorkOfAllDevices(program, op);
    if (!work.matrix) continue;
    auto matrix = machine.gpu.matrix_tflops.find(
        ToString(program.type(op.operands[0]).dtype));
    double tflops = matrix == machine.gpu.matrix_tflops.end()
                        ? machine.gpu.vector_tflops.peak
                        : matrix->second.peak;
    peak_us += work.useful * work.flops / (tflops * 1e6);
  }
  double devices = static_cast<double>(program.mesh.num_devices());
  return makespan_us > 0 ? peak_us / (devices * makespan_us) : 0;
}

double EnergyPerToken(const Profile& profile) {
  auto tokens = static_cast<double>(profile.step.TokensPerStep());
  if (profile.watts == 0 || tokens == 0) return 0;
  double joules = profile.watts * profile.makespan_us * 1e-6;
  return joules * static_cast<double>(profile.devices) / tokens;
}

void SumUp(Profile* profile) {
  std::vector<Interval> compute, comm;
  std::map<std::string, std::vector<Interval>> by_axes;
  double begin = 0, end = 0;
  for (const ProfileOp& op : profile->ops) {
    bool first = &op == profile->ops.data();
    begin = first ? op.start_us : std::min(begin, op.start_us);
    end = first ? op.end_us : std::max(end, op.end_us);
    Interval interval{op.start_us, op.end_us};
    (op.is_collective() ? comm : compute).push_back(interval);
    if (op.is_collective()) by_axes[op.axes].push_back(interval);
  }
  compute = Joined(std::move(compute), {});
  comm = Joined(std::move(comm), {});
  profile->makespan_us = end - begin;
  profile->compute_us = UnionLength(compute);
  profile->comm_us = UnionLength(comm);
  // |A \ B| = |A u B| - |B|.
  profile->exposed_comm_us =
      UnionLength(Joined(comm, compute)) - profile->compute_us;
  profile->collectives = static_cast<int>(comm.size());
  profile->bubble = profile->makespan_us > 0
                        ? 1 - profile->compute_us / profile->makespan_us
                        : 0;
  profile->exposed.clear();
  for (auto& [axes, intervals] : by_axes) {
    intervals = Joined(std::move(intervals), {});
    profile->exposed.push_back(
        {axes, UnionLength(intervals),
         UnionLength(Joined(intervals, compute)) - profile->compute_us});
  }
}

bool IsTie(double a_us, double a_noise, double b_us, double b_noise) {
  return std::abs(a_us - b_us) <=
         std::max(a_noise, b_noise) * std::min(a_us, b_us);
}

absl::Status CheckCapacity(const Profile& profile) {
  int64_t needs = std::max(profile.peak_bytes, profile.device_bytes);
  int64_t over = needs - profile.capacity_bytes;
  if (profile.capacity_bytes == 0 || over <= 0) return absl::OkStatus();
  std::map<std::string, int64_t> kinds;
  for (const ProfileBuffer& buffer : profile.at_peak) {
    kinds[buffer.kind] += buffer.bytes;
  }
  // Bytes of no value: gaps of the arena, and libraries.
  kinds["gaps"] +=
      std::max<int64_t>(0, profile.arena_bytes - profile.peak_bytes);
  kinds["libraries"] +=
      std::max<int64_t>(0, profile.device_bytes - profile.arena_bytes);
  std::erase_if(kinds, [](const auto& kind) { return kind.second == 0; });
  std::vector<std::pair<int64_t, std::string>> largest;
  for (const auto& [kind, bytes] : kinds) largest.emplace_back(bytes, kind);
  std::sort(largest.rbegin(), largest.rend());
  std::string filled;
  for (const auto& [bytes, kind] : largest) {
    filled += fmt::format("{}{} {}", filled.empty() ? "" : ", ", kind,
                          BytesText(bytes));
  }
  return absl::ResourceExhaustedError(fmt::format(
      "{} does not fit: {} on a device of {}, {} too much; at the peak: {}",
      profile.model, BytesText(needs), BytesText(profile.capacity_bytes),
      BytesText(over), filled));
}

}  // namespace asyra
