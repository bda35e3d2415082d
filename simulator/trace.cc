#include "simulator/trace.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

namespace asyra {
namespace {

using Json = nlohmann::ordered_json;

// Trace times have three decimals. Rounding both ends of a slice, and not its
// duration, keeps neighbours from overlapping.
double Rounded(double us) { return std::round(us * 1000) / 1000; }

// "all_reduce" -> "AllReduce".
std::string CamelCase(std::string_view name) {
  std::string camel;
  bool up = true;
  for (char c : name) {
    if (c != '_') camel += up ? static_cast<char>(std::toupper(c)) : c;
    up = c == '_';
  }
  return camel;
}

int64_t LocalElements(const Program& program, ValueId value) {
  const Type& type = program.type(value);
  return LocalBytes(type, program.mesh) / SizeOf(type.dtype);
}

// The device is process 0; profilers give the host its number of a process.
constexpr int kDevice = 0;
constexpr int kHost = 1000;
constexpr int kHostTrack = 1;
// What a step of ours is called where profilers name steps.
constexpr std::string_view kStep = "ProfilerStep#0";

class TraceWriter {
 public:
  TraceWriter(const Program& program, const SimResult& result,
              const Machine& machine)
      : program_(program), result_(result), machine_(machine) {
    critical_.assign(program.ops.size(), 0);
    for (int op : result.critical_path) critical_[op] = 1;
  }

  Json Write() {
    Json trace;
    trace["schemaVersion"] = 1;
    trace["deviceProperties"] = DeviceProperties();
    trace["distributedInfo"] = DistributedInfo();
    trace["displayTimeUnit"] = "ms";
    trace["baseTimeNanoseconds"] = 0;
    Metadata();
    for (const OpSpan& span : result_.spans) {
      if (span.end_us > span.start_us) Slice(span);
    }
    Host();
    Arrows();
    for (const MemoryPoint& point : result_.memory) {
      events_.push_back({{"ph", "C"},
                         {"name", "memory"},
                         {"pid", kDevice},
                         {"ts", Rounded(point.time_us)},
                         {"args", {{"allocated", point.live_bytes}}}});
    }
    trace["traceEvents"] = std::move(events_);
    return trace;
  }

 private:
  Json DeviceProperties() const {
    constexpr double kBytesPerGib = 1 << 30;
    return Json::array(
        {{{"id", 0},
          {"name", machine_.gpu.name},
          {"totalGlobalMem",
           static_cast<int64_t>(machine_.gpu.hbm_gib * kBytesPerGib)},
          {"numSms", machine_.gpu.sms}}});
  }

  const Op& OpOf(const OpSpan& span) const { return program_.ops[span.op]; }
  static int Track(StreamId stream) { return stream + 1; }

  Json DistributedInfo() {
    Json groups = Json::array();
    for (const AxesExposure& axes : result_.exposed) {
      std::string name = AxesToString(axes.axes, program_.mesh);
      groups.push_back({{"pg_name", name},
                        {"pg_desc", name},
                        {"pg_size", program_.mesh.size(axes.axes)},
                        {"ranks", program_.mesh.Group(0, axes.axes)}});
    }
    return {{"backend", "nccl"},
            {"rank", 0},
            {"world_size", program_.mesh.num_devices()},
            {"pg_count", groups.size()},
            {"pg_config", groups}};
  }

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

  void Metadata() {
    About("process_name", kDevice, 0, {{"name", program_.name}});
    About("process_labels", kDevice, 0, {{"labels", machine_.name}});
    About("process_sort_index", kDevice, 0, {{"sort_index", 1}});
    About("process_name", kHost, 0, {{"name", "host"}});
    About("process_sort_index", kHost, 0, {{"sort_index", 0}});
    NameTrack(kHost, kHostTrack, "issue");
    bool unassigned = program_.stage < Stage::kScheduled;
    if (unassigned) NameTrack(kDevice, Track(kNoStream), "device");
    for (size_t i = 0; i < program_.streams.size(); ++i) {
      NameTrack(kDevice, Track(static_cast<StreamId>(i)), program_.streams[i]);
    }
  }

  void Complete(std::string_view category, std::string_view name, int process,
                int track, double start_us, double end_us, const Json& args) {
    double start = Rounded(start_us);
    events_.push_back({{"ph", "X"},
                       {"cat", category},
                       {"name", name},
                       {"pid", process},
                       {"tid", track},
                       {"ts", start},
                       {"dur", Rounded(Rounded(end_us) - start)},
                       {"args", args}});
  }

  void Slice(const OpSpan& span) {
    const Op& op = OpOf(span);
    std::string name(op.def->name);
    if (op.is_collective()) name = "ncclDevKernel_" + CamelCase(name);
    Json args = {{"device", kDevice},
                 {"context", 1},
                 {"stream", Track(span.stream)},
                 {"correlation", span.op + 1},
                 {"External id", span.op + 1},
                 {"critical", critical_[span.op] != 0}};
    if (!op.results.empty()) {
      args["value"] = program_.value_name(op.results[0]);
      args["type"] = ToString(program_.type(op.results[0]), program_.mesh);
    }
    if (!result_.prices.empty()) {
      args["source"] = ToString(result_.prices[span.op].source);
      args["limit"] = ToString(result_.prices[span.op].limit);
    }
    if (op.is_collective()) AddCollective(op, &args);
    Complete("kernel", name, kDevice, Track(span.stream), span.start_us,
             span.end_us, args);
  }

  // The host issues in text order, one op after the other.
  void Host() {
    Complete("user_annotation", kStep, kHost, kHostTrack, 0,
             result_.makespan_us, Json::object());
    if (result_.prices.empty()) return;
    double now = 0;
    for (const OpSpan& span : result_.spans) {
      double launch = result_.prices[span.op].launch_us;
      if (launch == 0 || span.end_us == span.start_us) {
        now += launch;
        continue;
      }
      Complete("cuda_runtime", "cudaLaunchKernel", kHost, kHostTrack, now,
               now + launch,
               {{"correlation", span.op + 1}, {"External id", span.op + 1}});
      Flow("ac2g", span.op + 1, {kHost, kHostTrack, now},
           {kDevice, Track(span.stream), span.start_us});
      now += launch;
    }
  }

  void AddCollective(const Op& op, Json* args) {
    const auto& axes = op.attrs.Get<AxisList>("axes");
    int64_t in = 0, out = 0;
    for (ValueId value : op.operands) in += LocalElements(program_, value);
    for (ValueId value : op.results) out += LocalElements(program_, value);
    (*args)["Collective name"] = op.def->name;
    (*args)["In msg nelems"] = in;
    (*args)["Out msg nelems"] = out;
    (*args)["Group size"] = program_.mesh.size(axes);
    (*args)["dtype"] = ToString(program_.type(op.operands[0]).dtype);
    std::string group = AxesToString(axes, program_.mesh);
    (*args)["Process Group Name"] = group;
    (*args)["Process Group Description"] = group;
    // As text, which is how profilers write it.
    (*args)["Process Group Ranks"] = Json(program_.mesh.Group(0, axes)).dump();
  }

  // From each collective to the kernel that its wait held up.
  void Arrows() {
    std::vector<int> start_of(program_.values.size(), -1);
    std::vector<std::vector<int>> waiting(program_.streams.size() + 1);
    for (const OpSpan& span : result_.spans) {
      const Op& op = OpOf(span);
      std::vector<int>& held = waiting[Track(span.stream)];
      if (op.start) start_of[op.results[0]] = span.op;
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
        std::max(Rounded(from.start_us), Rounded(Rounded(from.end_us) - 0.001));
    int id = static_cast<int>(program_.ops.size()) + ++arrows_;
    Flow("wait", id, {kDevice, Track(from.stream), leaves},
         {kDevice, Track(to.stream), to.start_us});
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
                {"ts", Rounded(from.time_us)}};
    events_.push_back(end);
    end["ph"] = "f";
    end["pid"] = to.process;
    end["tid"] = to.track;
    end["ts"] = Rounded(to.time_us);
    end["bp"] = "e";
    events_.push_back(end);
  }

  const Program& program_;
  const SimResult& result_;
  const Machine& machine_;
  std::vector<char> critical_;
  Json events_ = Json::array();
  int arrows_ = 0;
};

}  // namespace

std::string WriteChromeTrace(const Program& program, const SimResult& result,
                             const Machine& machine) {
  return TraceWriter(program, result, machine)
             .Write()
             .dump(1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace asyra
