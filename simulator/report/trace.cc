#include "simulator/report/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/copy_engine.h"
#include "ir/overlap.h"
#include "ir/plans/fused_reduction.h"
#include "ir/trace_event.h"
#include "simulator/cost/plan_cost.h"

namespace asyra {
namespace {

using Json = nlohmann::ordered_json;

// Devices are processes from 0 on; profilers give the host its number of a
// process, here one for each device.
constexpr int kFirstHost = 1000;
constexpr int kHostTrack = 1;
// The name of our step where profilers name steps.
constexpr std::string_view kStep = "ProfilerStep#0";

// The events of one step; `device` of several.
class StepWriter {
 public:
  StepWriter(const TracedStep& step, const Machine& machine, int device,
             int first_id, Json* events)
      : program_(step.program),
        result_(step.result),
        machine_(machine),
        name_(step.name.empty() ? program_.name
                                : program_.name + ", " + step.name),
        device_(device),
        host_(kFirstHost + device),
        next_id_(first_id),
        events_(*events) {
    critical_.assign(program_.ops.size(), 0);
    for (int op : result_.critical_path) critical_[op] = 1;
  }

  // `shown` is its place among the devices of a viewer. Returns the first id
  // that is free.
  int Write(int shown) {
    first_kernel_ = next_id_;
    next_id_ += static_cast<int>(program_.ops.size());
    Metadata(shown);
    for (const OpSpan& span : result_.spans) {
      if (span.end_us > span.start_us) Slice(span);
    }
    Queues();
    Host();
    Arrows();
    for (const MemoryPoint& point : result_.memory) {
      events_.push_back({{"ph", "C"},
                         {"name", "memory"},
                         {"pid", device_},
                         {"ts", TraceUs(point.time_us)},
                         {"args", {{"allocated", point.live_bytes}}}});
    }
    return next_id_;
  }

 private:
  const Op& OpOf(const OpSpan& span) const { return program_.ops[span.op]; }
  int IdOf(const OpSpan& span) const { return first_kernel_ + span.op; }
  static int Track(StreamId stream) { return stream + 1; }

  void About(std::string_view what, int process, int track, const Json& args) {
    events_.push_back({{"ph", "M"},
                       {"name", what},
                       {"pid", process},
                       {"tid", track},
                       {"args", args}});
  }
  void NameTrack(int process, int track, const std::string& name) {
    About("thread_name", process, track, {{"name", name}});
    About("thread_sort_index", process, track, {{"sort_index", track}});
  }

  void Metadata(int shown) {
    About("process_name", device_, 0, {{"name", name_}});
    About("process_labels", device_, 0, {{"labels", machine_.name}});
    About("process_sort_index", device_, 0, {{"sort_index", 2 * shown + 1}});
    About("process_name", host_, 0, {{"name", "host"}});
    About("process_sort_index", host_, 0, {{"sort_index", 2 * shown}});
    NameTrack(host_, kHostTrack, "issue");
    bool unassigned = program_.stage < Stage::kScheduled;
    if (unassigned) NameTrack(device_, Track(kNoStream), "device");
    for (size_t i = 0; i < program_.streams.size(); ++i) {
      NameTrack(device_, Track(static_cast<StreamId>(i)), program_.streams[i]);
    }
  }

  void Complete(std::string_view category, std::string_view name, int process,
                int track, double start_us, double end_us, const Json& args) {
    double start = TraceUs(start_us);
    events_.push_back({{"ph", "X"},
                       {"cat", category},
                       {"name", name},
                       {"pid", process},
                       {"tid", track},
                       {"ts", start},
                       {"dur", TraceUs(TraceUs(end_us) - start)},
                       {"args", args}});
  }

  void Slice(const OpSpan& span) {
    const Op& op = OpOf(span);
    Json args = {{"device", device_},
                 {"context", 1},
                 {"stream", Track(span.stream)},
                 {"correlation", IdOf(span)},
                 {"External id", IdOf(span)},
                 {"critical", critical_[span.op] != 0}};
    if (!op.results.empty()) {
      args["value"] = program_.value_name(op.results[0]);
      args["type"] = ToString(program_.type(op.results[0]), program_.mesh);
    }
    if (!result_.op_costs.empty()) {
      args["source"] = ToString(result_.op_costs[span.op].source);
      args["limit"] = ToString(result_.op_costs[span.op].limit);
    }
    // The devices of a program are identical: this is its first one.
    if (op.is_collective()) {
      AddCollectiveArgs(program_, op, 0, TransportOf(span), &args);
    }
    Complete("kernel", TraceName(op), device_, Track(span.stream),
             span.start_us, span.end_us, args);
  }

  // Their tracks come behind those of the streams.
  void Queues() {
    CostModel costs(machine_, program_.mesh);
    std::vector<std::string> queues;
    for (const OpSpan& span : result_.spans) {
      const Op& op = OpOf(span);
      if (!IsOverlap(*op.def) || IsOneKernel(op.attrs)) continue;
      OverlapTimeline timeline = OverlapTimelineOf(OpUse(program_, op), costs);
      double stretch = (span.end_us - span.start_us) / timeline.time_us;
      for (const OverlapStep& step : timeline.steps) {
        auto at = std::find(queues.begin(), queues.end(), step.queue);
        int track = Track(static_cast<StreamId>(program_.streams.size())) +
                    static_cast<int>(at - queues.begin());
        if (at == queues.end()) {
          queues.push_back(step.queue);
          NameTrack(device_, track, "overlap: " + step.queue);
        }
        Complete("overlap", step.name, device_, track,
                 span.start_us + step.start_us * stretch,
                 span.start_us + step.end_us * stretch,
                 {{"External id", IdOf(span)}, {"copy", step.is_copy}});
      }
    }
  }

  std::string_view TransportOf(const OpSpan& span) const {
    bool copied = !result_.op_costs.empty() &&
                  result_.op_costs[span.op].algorithm == Algorithm::kCopyEngine;
    return copied ? kCopyEngine : kLibrary;
  }

  // The host issues in program order, one op after the other.
  void Host() {
    Complete("user_annotation", kStep, host_, kHostTrack, 0,
             result_.makespan_us, Json::object());
    if (result_.op_costs.empty()) return;
    double now = 0;
    for (const OpSpan& span : result_.spans) {
      double launch = result_.op_costs[span.op].launch_us;
      if (launch == 0 || span.end_us == span.start_us) {
        now += launch;
        continue;
      }
      Complete("cuda_runtime", "cudaLaunchKernel", host_, kHostTrack, now,
               now + launch,
               {{"correlation", IdOf(span)}, {"External id", IdOf(span)}});
      Flow("ac2g", IdOf(span), {host_, kHostTrack, now},
           {device_, Track(span.stream), span.start_us});
      now += launch;
    }
  }

  // From each collective to the kernel that waited for it.
  void Arrows() {
    std::vector<int> start_of(program_.values.size(), -1);
    std::vector<std::vector<int>> waiting(program_.streams.size() + 1);
    for (const OpSpan& span : result_.spans) {
      const Op& op = OpOf(span);
      std::vector<int>& held = waiting[Track(span.stream)];
      if (op.start) {
        for (ValueId future : op.results) start_of[future] = span.op;
      }
      if (op.def->is_wait) held.push_back(start_of[op.operands[0]]);
      if (span.end_us == span.start_us) continue;
      for (int from : held) {
        if (from >= 0) WaitArrow(result_.spans[from], span);
      }
      held.clear();
    }
  }

  // It leaves within the last nanosecond of the collective: an arrow belongs
  // to the slice around its end.
  void WaitArrow(const OpSpan& from, const OpSpan& to) {
    double leaves =
        std::max(TraceUs(from.start_us), TraceUs(TraceUs(from.end_us) - 0.001));
    Flow("wait", next_id_++, {device_, Track(from.stream), leaves},
         {device_, Track(to.stream), to.start_us});
  }

  struct Place {
    int process, track;
    double time_us;
  };
  void Flow(std::string_view category, int id, const Place& from,
            const Place& to) {
    Json end = {{"ph", "s"},
                {"cat", category},
                {"name", category},
                {"id", id},
                {"pid", from.process},
                {"tid", from.track},
                {"ts", TraceUs(from.time_us)}};
    events_.push_back(end);
    end["ph"] = "f";
    end["pid"] = to.process;
    end["tid"] = to.track;
    end["ts"] = TraceUs(to.time_us);
    end["bp"] = "e";
    events_.push_back(end);
  }

  const Program& program_;
  const SimResult& result_;
  const Machine& machine_;
  std::string name_;
  int device_, host_;
  int first_kernel_ = 0;
  int next_id_;
  std::vector<char> critical_;
  Json& events_;
};

Json DeviceProperties(const Machine& machine, int id) {
  constexpr double kBytesPerGib = 1 << 30;
  return {{"id", id},
          {"name", machine.gpu.name},
          {"totalGlobalMem",
           static_cast<int64_t>(machine.gpu.hbm_gib * kBytesPerGib)},
          {"numSms", machine.gpu.sms}};
}

Json DistributedInfo(const TracedStep& step) {
  const Mesh& mesh = step.program.mesh;
  Json groups = Json::array();
  for (const AxesExposure& axes : step.result.exposed) {
    std::string name = AxesToString(axes.axes, mesh);
    groups.push_back({{"pg_name", name},
                      {"pg_desc", name},
                      {"pg_size", mesh.size(axes.axes)},
                      {"ranks", mesh.Group(0, axes.axes)}});
  }
  return {{"backend", "nccl"},
          {"rank", 0},
          {"world_size", mesh.num_devices()},
          {"pg_count", groups.size()},
          {"pg_config", groups}};
}

}  // namespace

std::string WriteChromeTrace(const Program& program, const SimResult& result,
                             const Machine& machine) {
  TracedStep step{program, result, ""};
  return WriteChromeTrace({&step, 1}, machine);
}

std::string WriteChromeTrace(absl::Span<const TracedStep> steps,
                             const Machine& machine) {
  Json devices = Json::array(), events = Json::array();
  int count = static_cast<int>(steps.size()), next_id = 1;
  for (int i = 0; i < count; ++i) {
    devices.push_back(DeviceProperties(machine, i));
    next_id =
        StepWriter(steps[i], machine, i, next_id, &events).Write(count - 1 - i);
  }
  Json trace;
  trace["schemaVersion"] = 1;
  trace["deviceProperties"] = std::move(devices);
  trace["distributedInfo"] = DistributedInfo(steps[0]);
  trace["displayTimeUnit"] = "ms";
  trace["baseTimeNanoseconds"] = 0;
  trace["traceEvents"] = std::move(events);
  return trace.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace asyra
