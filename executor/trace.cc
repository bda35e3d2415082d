#include "executor/trace.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/streams.h"
#include "ir/trace_event.h"

namespace asyra {
namespace {

using Json = nlohmann::ordered_json;

class TraceWriter {
 public:
  TraceWriter(const Program& program, int64_t rank,
              absl::Span<const OpTime> times)
      : program_(program), rank_(rank), times_(times) {}

  Json Write() {
    Metadata();
    for (const OpTime& time : times_) Slice(time);
    Queues();
    Arrows();
    Json trace;
    trace["schemaVersion"] = 1;
    trace["distributedInfo"] = DistributedInfo();
    trace["displayTimeUnit"] = "ms";
    trace["traceEvents"] = std::move(events_);
    return trace;
  }

 private:
  static int Track(StreamId stream) { return stream + 1; }

  Json DistributedInfo() {
    std::map<std::string, AxisList> groups;
    for (const Op& op : program_.ops) {
      if (!op.is_collective()) continue;
      const auto& axes = op.attrs.Get<AxisList>("axes");
      groups[AxesToString(axes, program_.mesh)] = axes;
    }
    Json config = Json::array();
    for (const auto& [name, axes] : groups) {
      config.push_back({{"pg_name", name},
                        {"pg_desc", name},
                        {"pg_size", program_.mesh.size(axes)},
                        {"ranks", program_.mesh.Group(rank_, axes)}});
    }
    return {{"backend", "nccl"},
            {"rank", rank_},
            {"world_size", program_.mesh.num_devices()},
            {"pg_count", config.size()},
            {"pg_config", config}};
  }

  void Name(std::string_view what, int track, const std::string& name) {
    events_.push_back({{"ph", "M"},
                       {"name", what},
                       {"pid", rank_},
                       {"tid", track},
                       {"args", {{"name", name}}}});
  }

  void Metadata() {
    Name("process_name", 0, program_.name);
    if (program_.stage < Stage::kScheduled) {
      Name("thread_name", Track(kNoStream), std::string(kComputeStream));
    }
    for (size_t i = 0; i < program_.streams.size(); ++i) {
      Name("thread_name", Track(static_cast<StreamId>(i)), program_.streams[i]);
    }
  }

  void Slice(const OpTime& time) {
    const Op& op = program_.ops[time.op];
    Json args = {{"op", time.op},
                 {"value", program_.value_name(op.results[0])}};
    if (op.is_collective()) {
      AddCollectiveArgs(program_, op, rank_, time.transport, &args);
    }
    double start = TraceUs(time.start_us);
    events_.push_back({{"ph", "X"},
                       {"cat", "kernel"},
                       {"name", TraceName(op)},
                       {"pid", rank_},
                       {"tid", Track(op.stream)},
                       {"ts", start},
                       {"dur", TraceUs(TraceUs(time.end_us) - start)},
                       {"args", args}});
  }

  // Their tracks come behind those of the streams.
  void Queues() {
    std::vector<std::string> queues;
    for (const OpTime& time : times_) {
      for (const PartTime& part : time.parts) {
        auto at = std::find(queues.begin(), queues.end(), part.queue);
        int track = Track(static_cast<StreamId>(program_.streams.size())) +
                    static_cast<int>(at - queues.begin());
        if (at == queues.end()) {
          queues.push_back(part.queue);
          Name("thread_name", track, "overlap: " + part.queue);
        }
        double start = TraceUs(part.start_us);
        events_.push_back(
            {{"ph", "X"},
             {"cat", "overlap"},
             {"name", part.name},
             {"pid", rank_},
             {"tid", track},
             {"ts", start},
             {"dur", TraceUs(TraceUs(part.end_us) - start)},
             {"args", {{"op", time.op}, {"copy", part.is_copy}}}});
      }
    }
  }

  // Draws arrows from each started collective to the op that came after its
  // wait.
  void Arrows() {
    std::map<int, const OpTime*> time_of;
    for (const OpTime& time : times_) time_of[time.op] = &time;
    std::map<ValueId, int> start_of;
    std::map<StreamId, std::vector<int>> waiting;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      int index = static_cast<int>(i);
      std::vector<int>& held = waiting[op.stream];
      if (op.start) {
        for (ValueId future : op.results) start_of[future] = index;
      }
      if (op.def->is_wait) held.push_back(start_of[op.operands[0]]);
      if (time_of.count(index) == 0) continue;
      for (int from : held) Arrow(*time_of[from], *time_of[index]);
      held.clear();
    }
  }

  void Arrow(const OpTime& from, const OpTime& to) {
    ++arrows_;
    Json end = {{"ph", "s"},
                {"cat", "wait"},
                {"name", "wait"},
                {"id", arrows_},
                {"pid", rank_},
                {"tid", Track(program_.ops[from.op].stream)},
                {"ts", TraceUs(from.start_us)}};
    events_.push_back(end);
    end["ph"] = "f";
    end["tid"] = Track(program_.ops[to.op].stream);
    end["ts"] = TraceUs(to.start_us);
    end["bp"] = "e";
    events_.push_back(end);
  }

  const Program& program_;
  int64_t rank_;
  absl::Span<const OpTime> times_;
  Json events_ = Json::array();
  int arrows_ = 0;
};

}  // namespace

std::string WriteProfileTrace(const Program& program, int64_t rank,
                              absl::Span<const OpTime> times) {
  return TraceWriter(program, rank, times)
             .Write()
             .dump(1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace asyra
