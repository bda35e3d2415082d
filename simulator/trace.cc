#include "simulator/trace.h"

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

class TraceWriter {
 public:
  TraceWriter(const Program& program, const SimResult& result)
      : program_(program), result_(result) {}

  Json Write() {
    Json trace;
    trace["schemaVersion"] = 1;
    trace["distributedInfo"] = DistributedInfo();
    trace["displayTimeUnit"] = "ms";
    Metadata();
    for (const OpSpan& span : result_.spans) {
      if (span.end_us > span.start_us) Slice(span);
    }
    Arrows();
    for (const MemoryPoint& point : result_.memory) {
      events_.push_back({{"ph", "C"},
                         {"name", "memory"},
                         {"pid", 0},
                         {"ts", Rounded(point.time_us)},
                         {"args", {{"allocated", point.live_bytes}}}});
    }
    trace["traceEvents"] = std::move(events_);
    return trace;
  }

 private:
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

  void Name(std::string_view what, int track, const std::string& name) {
    events_.push_back({{"ph", "M"},
                       {"name", what},
                       {"pid", 0},
                       {"tid", track},
                       {"args", {{"name", name}}}});
  }

  void Metadata() {
    Name("process_name", 0, program_.name);
    bool unassigned = program_.stage < Stage::kScheduled;
    if (unassigned) Name("thread_name", Track(kNoStream), "compute");
    for (size_t i = 0; i < program_.streams.size(); ++i) {
      Name("thread_name", Track(static_cast<StreamId>(i)), program_.streams[i]);
    }
  }

  void Slice(const OpSpan& span) {
    const Op& op = OpOf(span);
    std::string name(op.def->name);
    if (op.is_collective()) name = "ncclDevKernel_" + CamelCase(name);
    double start = Rounded(span.start_us);
    Json args = {{"op", span.op}};
    if (!op.results.empty()) {
      args["value"] = program_.value_name(op.results[0]);
    }
    if (op.is_collective()) AddCollective(op, &args);
    events_.push_back({{"ph", "X"},
                       {"cat", "kernel"},
                       {"name", name},
                       {"pid", 0},
                       {"tid", Track(span.stream)},
                       {"ts", start},
                       {"dur", Rounded(Rounded(span.end_us) - start)},
                       {"args", args}});
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
    (*args)["Process Group Name"] = AxesToString(axes, program_.mesh);
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
        if (from >= 0) Arrow(result_.spans[from], span);
      }
      held.clear();
    }
  }

  void Arrow(const OpSpan& from, const OpSpan& to) {
    ++arrows_;
    Json end = {{"ph", "s"},
                {"cat", "ac2g"},
                {"name", "ac2g"},
                {"id", arrows_},
                {"pid", 0},
                {"tid", Track(from.stream)},
                {"ts", Rounded(from.start_us)}};
    events_.push_back(end);
    end["ph"] = "f";
    end["tid"] = Track(to.stream);
    end["ts"] = Rounded(to.start_us);
    end["bp"] = "e";
    events_.push_back(end);
  }

  const Program& program_;
  const SimResult& result_;
  Json events_ = Json::array();
  int arrows_ = 0;
};

}  // namespace

std::string WriteChromeTrace(const Program& program, const SimResult& result) {
  return TraceWriter(program, result)
             .Write()
             .dump(1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace asyra
