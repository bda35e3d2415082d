#include "simulator/replay.h"

#include <algorithm>
#include <limits>

#include "ir/support/check.h"
#include "simulator/bound.h"
#include "simulator/dependencies.h"
#include "simulator/sharing.h"

namespace asyra {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Work of the op that runs on a stream, anchored where its rate last changed,
// so that an op that always runs alone ends exactly after its time.
struct Running {
  int op = -1;
  double anchor_us = 0;
  double left_us = 0;  // at the anchor, at full speed
  double rate = 1;
  double end_us = kNever;

  void Retime(double now, double new_rate) {
    if (new_rate == rate) return;
    left_us = std::max(0.0, left_us - (now - anchor_us) * rate);
    anchor_us = now;
    rate = new_rate;
    end_us = now + left_us / rate;
  }
};

struct Stream {
  std::vector<int> ops;  // in issue order
  size_t next = 0;
  Running running;
};

class Engine {
 public:
  Engine(const Program& program, absl::Span<const OpCost> prices,
         const ReplayOptions& options, const Dependencies& dependencies)
      : program_(program),
        prices_(prices),
        options_(options),
        dependencies_(dependencies),
        streams_(program.streams.size() + 1),
        met_(program.ops.size(), 0),
        done_(program.ops.size(), 0),
        issued_us_(program.ops.size(), 0) {
    double host_us = 0;
    result_.spans.resize(program.ops.size());
    for (size_t i = 0; i < program.ops.size(); ++i) {
      int op = static_cast<int>(i);
      streams_[program.ops[i].stream + 1].ops.push_back(op);
      host_us += prices[i].launch_us * options.launch_scale;
      issued_us_[i] = host_us;
      result_.spans[i].op = op;
      result_.spans[i].stream = program.ops[i].stream;
      Count(i);
    }
    std::erase_if(streams_, [](const Stream& s) { return s.ops.empty(); });
    for (const AxisList& axes : dependencies.communicators()) {
      result_.exposed.push_back({axes, 0, 0});
    }
    busy_.resize(result_.exposed.size(), 0);
  }

  SimResult Run() {
    while (finished_ < program_.ops.size()) {
      StartWhatCan();
      Retime();
      double next = NextEvent();
      if (next == kNever) break;
      Account(next - now_);
      now_ = next;
      FinishWhatEnds();
    }
    ASYRA_CHECK(finished_ == program_.ops.size());
    result_.makespan_us = now_;
    if (now_ > 0) result_.bubble = 1 - result_.compute_us / now_;
    return std::move(result_);
  }

 private:
  void Count(size_t op) {
    if (prices_[op].time_us == 0) return;
    ++result_.ops;
    result_.collectives += program_.ops[op].is_collective();
    result_.source_us[prices_[op].source] += prices_[op].time_us;
    for (int r = 0; r < kNumResources; ++r) {
      result_.resource_us[r] += prices_[op].load[r] * prices_[op].time_us;
    }
  }

  // Of what held `op` until now, the last to end; data first among equals.
  void FindCause(const Stream& stream, int op) {
    OpSpan& span = result_.spans[op];
    double latest = 0;
    auto held = [&](double until_us, int after, OpSpan::Cause cause) {
      if (until_us < latest || (until_us == latest && cause < span.cause)) {
        return;
      }
      latest = until_us;
      span.after = after;
      span.cause = cause;
    };
    if (issued_us_[op] > 0) held(issued_us_[op], -1, OpSpan::kHost);
    if (stream.next > 0) {
      int before = stream.ops[stream.next - 1];
      held(result_.spans[before].end_us, before, OpSpan::kStream);
    }
    size_t data = dependencies_.DataOf(op).size();
    absl::Span<const int> edges = dependencies_.AllOf(op);
    for (size_t i = 0; i < edges.size(); ++i) {
      held(result_.spans[edges[i]].end_us, edges[i],
           i < data ? OpSpan::kData : OpSpan::kCommunicator);
    }
  }

  // Whether everything before `op` has ended; remembers how far it looked.
  bool DependenciesMet(int op) {
    absl::Span<const int> edges = dependencies_.AllOf(op);
    size_t& met = met_[op];
    while (met < edges.size() && done_[edges[met]]) ++met;
    return met == edges.size();
  }

  // Ops of no duration end at once and may let other streams go on.
  void StartWhatCan() {
    for (bool progress = true; progress;) {
      progress = false;
      for (Stream& stream : streams_) {
        while (stream.running.op < 0 && stream.next < stream.ops.size()) {
          int op = stream.ops[stream.next];
          if (issued_us_[op] > now_ || !DependenciesMet(op)) break;
          progress |= Start(stream, op);
        }
      }
    }
  }

  // True when the op also ended.
  bool Start(Stream& stream, int op) {
    result_.spans[op].start_us = now_;
    if (options_.critical_path) FindCause(stream, op);
    double time_us = prices_[op].time_us;
    if (time_us == 0) {
      Finish(stream, op);
      return true;
    }
    stream.running = {op, now_, time_us, 1, now_ + time_us};
    active_changed_ = true;
    if (prices_[op].is_compute) ++computing_;
    if (int group = dependencies_.CommunicatorOf(op); group >= 0) {
      ++busy_[group];
      ++communicating_;
    }
    return false;
  }

  void Finish(Stream& stream, int op) {
    result_.spans[op].end_us = now_;
    done_[op] = 1;
    ++finished_;
    ++stream.next;
  }

  void FinishWhatEnds() {
    for (Stream& stream : streams_) {
      int op = stream.running.op;
      if (op < 0 || stream.running.end_us > now_) continue;
      stream.running = {};
      active_changed_ = true;
      if (prices_[op].is_compute) --computing_;
      if (int group = dependencies_.CommunicatorOf(op); group >= 0) {
        --busy_[group];
        --communicating_;
      }
      Finish(stream, op);
    }
  }

  void Retime() {
    if (!options_.contention || !active_changed_) return;
    active_changed_ = false;
    active_.clear();
    for (const Stream& stream : streams_) {
      if (stream.running.op >= 0)
        active_.push_back(&prices_[stream.running.op]);
    }
    ShareResources(active_, &rates_);
    size_t i = 0;
    for (Stream& stream : streams_) {
      if (stream.running.op >= 0) stream.running.Retime(now_, rates_[i++]);
    }
  }

  double NextEvent() {
    double next = kNever;
    for (const Stream& stream : streams_) {
      if (stream.running.op >= 0) {
        next = std::min(next, stream.running.end_us);
      } else if (stream.next < stream.ops.size()) {
        int op = stream.ops[stream.next];
        // The host's next issue; one that is already past waits for an end.
        if (issued_us_[op] > now_) next = std::min(next, issued_us_[op]);
      }
    }
    return next;
  }

  void Account(double elapsed_us) {
    if (computing_ > 0) result_.compute_us += elapsed_us;
    if (communicating_ == 0) return;
    result_.comm_us += elapsed_us;
    if (computing_ == 0) result_.exposed_comm_us += elapsed_us;
    for (size_t i = 0; i < busy_.size(); ++i) {
      if (busy_[i] == 0) continue;
      result_.exposed[i].comm_us += elapsed_us;
      if (computing_ == 0) result_.exposed[i].exposed_us += elapsed_us;
    }
  }

  const Program& program_;
  absl::Span<const OpCost> prices_;
  const ReplayOptions& options_;
  const Dependencies& dependencies_;
  std::vector<Stream> streams_;
  std::vector<size_t> met_;  // dependencies known to have ended
  std::vector<char> done_;
  std::vector<double> issued_us_;
  std::vector<int> busy_;  // running collectives per communicator
  std::vector<const OpCost*> active_;
  std::vector<double> rates_;
  bool active_changed_ = false;
  int computing_ = 0;
  int communicating_ = 0;
  size_t finished_ = 0;
  double now_ = 0;
  SimResult result_;
};

// From the last op to end back along what each waited for.
std::vector<int> CriticalPath(absl::Span<const OpSpan> spans) {
  std::vector<int> path;
  auto last = std::max_element(
      spans.begin(), spans.end(),
      [](const OpSpan& a, const OpSpan& b) { return a.end_us < b.end_us; });
  if (last == spans.end()) return path;
  for (int op = last->op; op >= 0; op = spans[op].after) path.push_back(op);
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace

std::string_view ToString(OpSpan::Cause cause) {
  constexpr std::string_view kNames[] = {"begin", "host", "stream",
                                         "communicator", "data"};
  return kNames[cause];
}

SimResult Replay(const Program& program, absl::Span<const OpCost> prices,
                 const ReplayOptions& options) {
  ASYRA_CHECK(prices.size() == program.ops.size());
  Dependencies dependencies(program);
  SimResult result = Engine(program, prices, options, dependencies).Run();
  if (options.critical_path) result.critical_path = CriticalPath(result.spans);
  if (options.lower_bound) {
    result.lower_bound_us =
        LowerBoundUs(program, prices, dependencies, options.contention);
  }
  if (options.memory) {
    MemoryProfile memory = ReplayMemory(program, result.spans);
    result.peak_bytes = memory.peak_bytes;
    result.weight_bytes = memory.weight_bytes;
    result.memory = std::move(memory.points);
  }
  return result;
}

}  // namespace asyra
