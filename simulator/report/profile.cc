#include "simulator/report/profile.h"

#include <algorithm>
#include <map>

#include "ir/body.h"
#include "ir/happens_before.h"
#include "ir/overlap.h"
#include "ir/plans/fused_reduction.h"
#include "simulator/cost/plan_cost.h"
#include "simulator/replay/exposure.h"
#include "simulator/replay/library_memory.h"

namespace asyra {
namespace {

// Number of buffers that pages and reports name; the others are small.
constexpr size_t kMostBuffers = 200;

class ProfileMaker {
 public:
  ProfileMaker(const Program& program, const SimResult& result,
               const CostModel& costs, const ExposureOptions& exposure)
      : program_(program),
        result_(result),
        costs_(costs),
        exposure_(exposure) {}

  Profile Make() {
    Totals();
    Streams();
    Ops();
    CriticalPath();
    Exposures();
    Memory();
    return std::move(profile_);
  }

 private:
  void Totals() {
    profile_.mesh = program_.mesh.num_axes() > 0 ? ToString(program_.mesh) : "";
    profile_.devices = program_.mesh.num_devices();
    profile_.makespan_us = result_.makespan_us;
    profile_.lower_bound_us = result_.lower_bound_us;
    profile_.compute_us = result_.compute_us;
    profile_.comm_us = result_.comm_us;
    profile_.exposed_comm_us = result_.exposed_comm_us;
    profile_.bubble = result_.bubble;
    profile_.collectives = result_.collectives;
    if (result_.clock_mhz > 0) {
      profile_.clock_mhz = result_.clock_mhz;
      profile_.most_mhz = costs_.machine().gpu.power->most_mhz;
      profile_.watts = result_.watts;
    }
    for (const AxesExposure& axes : result_.exposed) {
      profile_.exposed.push_back({AxesToString(axes.axes, program_.mesh),
                                  axes.comm_us, axes.exposed_us});
    }
    for (int r = 0; r < kNumResources; ++r) {
      profile_.resources.push_back(
          {std::string(ToString(static_cast<Resource>(r))),
           result_.resource_us[r]});
    }
  }

  // A local program has one stream without a name.
  void Streams() {
    bool unassigned = program_.stage < Stage::kScheduled;
    if (unassigned) profile_.streams.emplace_back("device");
    profile_.streams.insert(profile_.streams.end(), program_.streams.begin(),
                            program_.streams.end());
    first_stream_ = unassigned ? 1 : 0;
  }

  void Ops() {
    profile_op_.assign(program_.ops.size(), -1);
    std::vector<int> start_of(program_.values.size(), -1);
    // Per stream, the collectives whose waits the next kernel follows.
    std::vector<std::vector<int>> waiting(profile_.streams.size());
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      const OpSpan& span = result_.spans[i];
      int index = static_cast<int>(profile_.ops.size());
      std::vector<int>& held = waiting[span.stream + first_stream_];
      if (op.def->is_wait) held.push_back(start_of[op.operands[0]]);
      if (span.end_us == span.start_us) continue;
      for (int from : held) {
        if (from >= 0) profile_.ops[from].wait = index;
      }
      held.clear();
      if (op.start) {
        for (ValueId future : op.results) start_of[future] = index;
      }
      profile_op_[i] = index;
      profile_.ops.push_back(OpOf(static_cast<int>(i)));
    }
  }

  ProfileOp OpOf(int index) const {
    const Op& op = program_.ops[index];
    const OpSpan& span = result_.spans[index];
    const OpCost& cost = result_.op_costs[index];
    ProfileOp made;
    made.op = OpLabel(*op.def, op.attrs);
    if (!op.results.empty()) {
      made.name = NameOf(op.results[0]);
      made.type = ToString(program_.type(op.results[0]), program_.mesh);
    }
    made.stream = span.stream + first_stream_;
    made.start_us = span.start_us;
    made.end_us = span.end_us;
    made.alone_us = cost.time_us;
    if (op.is_collective()) {
      made.axes = AxesToString(op.attrs.Get<AxisList>("axes"), program_.mesh);
      made.bytes = PayloadBytes(program_, op);
    }
    made.source = ToString(cost.source);
    made.limit = ToString(cost.limit);
    made.waited_for = ToString(span.cause);
    if (IsOneKernel(op.attrs)) {
      made.kernel_axes = AxesToString(AxesOf(*BodyOf(op.attrs)), program_.mesh);
    } else if (IsOverlap(*op.def)) {
      made.steps = StepsOf(op, span);
    }
    return made;
  }

  // Stretched evenly where other ops slow the overlap down.
  std::vector<ProfileStep> StepsOf(const Op& op, const OpSpan& span) const {
    std::vector<ProfileStep> steps;
    OverlapTimeline timeline = OverlapTimelineOf(OpUse(program_, op), costs_);
    double stretch = (span.end_us - span.start_us) / timeline.time_us;
    for (OverlapStep& step : timeline.steps) {
      steps.push_back({std::move(step.queue), std::move(step.name),
                       step.is_copy, span.start_us + step.start_us * stretch,
                       span.start_us + step.end_us * stretch});
    }
    return steps;
  }

  // A started collective has the name of its result.
  std::string NameOf(ValueId value) const {
    constexpr std::string_view kFuture = ".future";
    std::string name = program_.value_name(value);
    if (program_.type(value).future && name.size() > kFuture.size() &&
        name.ends_with(kFuture)) {
      name.resize(name.size() - kFuture.size());
    }
    return name;
  }

  void CriticalPath() {
    std::map<std::string, double> by_source;
    double covered = 0;
    for (int index : result_.critical_path) {
      if (profile_op_[index] < 0) continue;
      ProfileOp& op = profile_.ops[profile_op_[index]];
      op.critical = true;
      by_source[op.source] += op.duration_us();
      covered += op.duration_us();
    }
    for (int i = 0; i < OpCost::kNumSources; ++i) {
      std::string name(ToString(static_cast<OpCost::Source>(i)));
      if (by_source.count(name) > 0) {
        profile_.sources.push_back({name, by_source[name]});
      }
    }
    double host = profile_.makespan_us - covered;
    if (host > 1e-9 * profile_.makespan_us) {
      profile_.sources.push_back({"host", host});
    }
  }

  void Exposures() {
    for (const ExposedCollective& exposed :
         ExplainExposure(program_, result_, exposure_)) {
      ProfileOp& op = profile_.ops[profile_op_[exposed.op]];
      op.exposed_us = exposed.us;
      op.exposed_by = ToString(exposed.reason());
    }
  }

  void Memory() {
    profile_.peak_bytes = result_.peak_bytes;
    profile_.weight_bytes = result_.weight_bytes;
    profile_.memory = result_.memory;
    auto peak =
        std::max_element(result_.memory.begin(), result_.memory.end(),
                         [](const MemoryPoint& a, const MemoryPoint& b) {
                           return a.live_bytes < b.live_bytes;
                         });
    if (peak == result_.memory.end()) return;
    profile_.peak_us = peak->time_us;
    std::vector<LiveBuffer> live =
        LiveBuffersAt(program_, result_.spans, peak->time_us);
    std::map<std::string, ProfileBuffer> others;
    for (size_t i = 0; i < live.size(); ++i) {
      const Type& type = program_.type(live[i].value);
      ProfileBuffer buffer{program_.value_name(live[i].value),
                           ToString(type, program_.mesh), KindOf(live[i].value),
                           live[i].bytes};
      if (i < kMostBuffers) {
        profile_.at_peak.push_back(std::move(buffer));
        continue;
      }
      ProfileBuffer& other = others[buffer.kind];
      other.kind = buffer.kind;
      other.name = "smaller ones";
      other.bytes += buffer.bytes;
    }
    for (auto& [kind, other] : others) profile_.at_peak.push_back(other);
  }

  std::string KindOf(ValueId value) {
    if (kinds_.empty()) {
      kinds_.assign(program_.values.size(), "activation");
      for (const Op& op : program_.ops) {
        if (!IsConstant(op)) continue;
        for (ValueId result : op.results) kinds_[result] = "constant";
      }
      for (const Input& input : program_.inputs) {
        kinds_[input.value] = IsWeight(input)                   ? "weight"
                              : input.role == InputRole::kState ? "state"
                                                                : "input";
      }
    }
    return kinds_[value];
  }

  const Program& program_;
  const SimResult& result_;
  const CostModel& costs_;
  const ExposureOptions exposure_;
  int first_stream_ = 0;
  std::vector<int> profile_op_;  // by op of the program; -1: takes no time
  std::vector<std::string> kinds_;
  Profile profile_;
};

}  // namespace

Profile MakeProfile(const Program& program, const SimResult& result,
                    const CostModel& costs, const ProfileOptions& options) {
  Profile profile = ProfileMaker(program, result, costs,
                                 {.budget_bytes = options.budget_bytes})
                        .Make();
  MemoryReport memory = ReportMemory(program, result, costs.machine());
  profile.rounded_bytes = memory.rounded_bytes;
  profile.arena_bytes = memory.arena_bytes;
  profile.device_bytes = memory.device_bytes;
  profile.model = options.model;
  profile.step = options.step;
  profile.noise = options.noise;
  profile.machine = costs.machine().name;
  profile.mfu =
      ModelFlopUtilization(program, costs.machine(), result.makespan_us);
  profile.capacity_bytes = CapacityBytes(options.capacity_gib, costs.machine());
  return profile;
}

}  // namespace asyra
