#include "simulator/replay/replayer.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "ir/support/check.h"

namespace asyra {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Relative: sums of costs are rounded.
constexpr double kRounding = 1e-9;

}  // namespace

class Replayer::Engine {
 public:
  Engine(const CostedProgram& costed, SharedSpeeds* speeds)
      : costed_(costed),
        ops_(costed.replay_ops()),
        dependencies_(costed.dependencies()),
        speeds_(speeds),
        streams_(costed.program().streams.size() + 1),
        groups_(dependencies_.communicators().size()),
        met_(ops_.size(), 0),
        done_(ops_.size(), 0),
        issued_us_(ops_.size(), 0) {
    ASYRA_CHECK(costed.op_costs().size() == ops_.size());
  }

  SimResult& Run(absl::Span<const int> order, const ReplayOptions& options) {
    Begin(order, options);
    for (const Stream* stream : used_) ExpectEnd(*stream);
    for (const Group& group : groups_) ExpectEnd(group);
    while (finished_ < ops_.size()) {
      if (end_us_ > limit_us_) {
        result_.makespan_us = end_us_;
        return result_;
      }
      StartWhatCan();
      Retime();
      double next = NextEvent();
      if (next == kNever) break;
      Account(next - now_);
      now_ = next;
      FinishWhatEnds();
    }
    ASYRA_CHECK(finished_ == ops_.size());
    result_.makespan_us = now_;
    if (now_ > 0) result_.bubble = 1 - result_.compute_us / now_;
    return result_;
  }

 private:
  // Work of the op that runs on a stream, if `op` is one, anchored where its
  // rate last changed, so that an op that always runs alone ends exactly after
  // its time.
  struct Running {
    int op = -1;
    double anchor_us = 0;
    double left_us = 0;         // at the anchor, at full speed
    double kernel_left_us = 0;  // when its kernel comes
    double rate = 1;
    double kernel_us = kNever;  // when it came
    double next_us = kNever;    // when it comes, and then the end
    // It waited for another stream, whose event arrives a little after the next
    // kernel there begins.
    bool hears_late = false;

    // In place: it happens once for each op of each replay.
    void Begin(int which, double now, const ReplayOp& cost) {
      op = which;
      anchor_us = now;
      left_us = cost.time_us;
      kernel_left_us = (1 - cost.kernel_start_fraction) * cost.time_us;
      rate = 1;
      kernel_us = cost.kernel_start_fraction <= 0 ? now : kNever;
      next_us = now + left_us - Until();
      hears_late = false;
    }
    void End() { op = -1; }

    bool has_kernel() const { return kernel_us < kNever; }
    double Until() const { return has_kernel() ? 0 : kernel_left_us; }

    void Retime(double now, double new_rate) {
      if (new_rate == rate) return;
      left_us = std::max(Until(), left_us - (now - anchor_us) * rate);
      anchor_us = now;
      rate = new_rate;
      // kNever if it stalls.
      next_us = left_us > Until() ? now + (left_us - Until()) / rate : now;
    }

    void KernelComes(double now) {
      kernel_us = anchor_us = now;
      left_us = kernel_left_us;
      next_us = now + left_us / rate;
    }
  };

  // Ops that run in issue order, one at a time.
  struct Queue {
    std::vector<int> ops;
    size_t next = 0;
    double left_us = 0;  // at full speed, of ops that have not ended

    void Clear() {
      ops.clear();
      next = 0;
      left_us = 0;
    }
  };
  struct Stream : Queue {
    Running running;

    void Clear() {
      Queue::Clear();
      running = {};
    }
  };
  // The collectives over one set of axes.
  struct Group : Queue {
    int running = 0;

    void Clear() {
      Queue::Clear();
      running = 0;
    }
  };

  // Nothing has run yet.
  void Begin(absl::Span<const int> order, const ReplayOptions& options) {
    ASYRA_CHECK(order.size() == ops_.size());
    options_ = options;
    limit_us_ = options.limit_us * (1 + kRounding);
    end_us_ = now_ = 0;
    active_changed_ = false;
    computing_ = communicating_ = 0;
    finished_ = 0;
    std::fill(met_.begin(), met_.end(), 0);
    std::fill(done_.begin(), done_.end(), 0);
    for (Stream& stream : streams_) stream.Clear();
    for (Group& group : groups_) group.Clear();
    std::vector<OpSpan> spans = std::move(result_.spans);
    result_ = {};
    result_.spans = std::move(spans);
    result_.spans.assign(ops_.size(), {});
    for (const AxisList& axes : dependencies_.communicators()) {
      result_.exposed.push_back({axes, 0, 0});
    }
    Issue(order);
  }

  void Issue(absl::Span<const int> order) {
    double host_us = 0;
    for (int op : order) {
      const ReplayOp& facts = ops_[op];
      Add(op, &streams_[facts.stream + 1]);
      if (facts.communicator >= 0) Add(op, &groups_[facts.communicator]);
      host_us += facts.launch_us * options_.launch_scale;
      issued_us_[op] = host_us;
      result_.spans[op].op = op;
      result_.spans[op].stream = facts.stream;
    }
    used_.clear();
    for (Stream& stream : streams_) {
      if (!stream.ops.empty()) used_.push_back(&stream);
    }
  }

  void Add(int op, Queue* queue) const {
    queue->ops.push_back(op);
    queue->left_us += ops_[op].time_us;
  }

  // An op at the front of the queue has ended.
  void Next(int op, Queue* queue) {
    ++queue->next;
    queue->left_us -= ops_[op].time_us;
    ExpectEnd(*queue);
  }

  // Raises the end that is expected: ops never run faster than alone.
  void ExpectEnd(const Queue& queue) {
    end_us_ = std::max(end_us_, now_ + queue.left_us);
  }

  // The last of the waits of `op` to end; data first among equals.
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
    int group = ops_[op].communicator;
    if (group >= 0 && groups_[group].next > 0) {
      int before = groups_[group].ops[groups_[group].next - 1];
      held(result_.spans[before].end_us, before, OpSpan::kCommunicator);
    }
    for (int before : dependencies_.AwaitedBy(op)) {
      held(result_.spans[before].end_us, before, OpSpan::kData);
    }
  }

  // Returns whether everything before `op` has ended; remembers how far it
  // looked.
  bool DependenciesMet(int op) {
    absl::Span<const int> edges = dependencies_.AwaitedBy(op);
    int& met = met_[op];
    while (met < static_cast<int>(edges.size()) && done_[edges[met]]) ++met;
    if (met < static_cast<int>(edges.size())) return false;
    int group = ops_[op].communicator;
    return group < 0 || groups_[group].ops[groups_[group].next] == op;
  }

  // Ops without duration end at once and may release other streams.
  void StartWhatCan() {
    for (bool progress = true; progress;) {
      progress = false;
      for (Stream* each : used_) {
        Stream& stream = *each;
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
    double time_us = ops_[op].time_us;
    if (time_us == 0) {
      Finish(stream, op);
      return true;
    }
    ExpectEnd(stream);
    stream.running.Begin(op, now_, ops_[op]);
    for (int before : dependencies_.AwaitedBy(op)) {
      stream.running.hears_late |=
          result_.spans[before].end_us == now_ &&
          result_.spans[before].stream != result_.spans[op].stream;
    }
    active_changed_ = true;
    if (ops_[op].is_compute) ++computing_;
    if (int group = ops_[op].communicator; group >= 0) {
      ++groups_[group].running;
      ++communicating_;
    }
    return false;
  }

  void Finish(Stream& stream, int op) {
    result_.spans[op].end_us = now_;
    done_[op] = 1;
    ++finished_;
    Next(op, &stream);
    int group = ops_[op].communicator;
    if (group >= 0) Next(op, &groups_[group]);
  }

  void FinishWhatEnds() {
    for (Stream* each : used_) {
      Stream& stream = *each;
      int op = stream.running.op;
      if (op < 0 || stream.running.next_us > now_) continue;
      active_changed_ = true;
      if (!stream.running.has_kernel()) {
        stream.running.KernelComes(now_);
        continue;
      }
      stream.running.End();
      if (ops_[op].is_compute) --computing_;
      if (int group = ops_[op].communicator; group >= 0) {
        --groups_[group].running;
        --communicating_;
      }
      Finish(stream, op);
    }
  }

  void Retime() {
    if (!options_.contention || !active_changed_) return;
    active_changed_ = false;
    auto began_before = [](const Stream* a, const Stream* b) {
      return std::pair(a->running.kernel_us, a->running.hears_late) <
             std::pair(b->running.kernel_us, b->running.hears_late);
    };
    // They are few.
    running_.clear();
    for (Stream* stream : used_) {
      if (stream->running.op < 0) continue;
      running_.insert(std::upper_bound(running_.begin(), running_.end(), stream,
                                       began_before),
                      stream);
    }
    FindRates();
    for (size_t i = 0; i < running_.size(); ++i) {
      running_[i]->running.Retime(now_, rates_[i]);
    }
  }

  void FindRates() {
    if (speeds_ != nullptr) {
      kept_active_.clear();
      for (const Stream* stream : running_) {
        kept_active_.push_back(
            {stream->running.op, stream->running.has_kernel()});
      }
      speeds_->Find(kept_active_, &rates_);
      return;
    }
    active_.clear();
    for (const Stream* stream : running_) {
      active_.push_back({&costed_.op_costs()[stream->running.op],
                         stream->running.has_kernel()});
    }
    ShareResources(active_, &rates_);
  }

  double NextEvent() {
    double next = kNever;
    for (const Stream* each : used_) {
      const Stream& stream = *each;
      if (stream.running.op >= 0) {
        next = std::min(next, stream.running.next_us);
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
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i].running == 0) continue;
      result_.exposed[i].comm_us += elapsed_us;
      if (computing_ == 0) result_.exposed[i].exposed_us += elapsed_us;
    }
  }

  const CostedProgram& costed_;
  const absl::Span<const ReplayOp> ops_;
  const Dependencies& dependencies_;
  SharedSpeeds* const speeds_;
  ReplayOptions options_;
  std::vector<Stream> streams_;
  std::vector<Stream*> used_;  // streams that have ops
  std::vector<Group> groups_;
  std::vector<int> met_;  // dependencies known to have ended
  std::vector<char> done_;
  std::vector<double> issued_us_;
  double limit_us_ = 0;
  double end_us_ = 0;             // at the earliest, of the whole
  std::vector<Stream*> running_;  // in the order in which their ops began
  // Buffers of ops whose speeds are asked for, with speeds that are kept and
  // without.
  std::vector<SharedSpeeds::Active> kept_active_;
  std::vector<ActiveOp> active_;
  std::vector<double> rates_;
  bool active_changed_ = false;
  int computing_ = 0;
  int communicating_ = 0;
  size_t finished_ = 0;
  double now_ = 0;
  SimResult result_;
};

Replayer::Replayer(const CostedProgram& costed, SharedSpeeds* speeds)
    : engine_(std::make_unique<Engine>(costed, speeds)) {}
Replayer::~Replayer() = default;
Replayer::Replayer(Replayer&&) noexcept = default;

SimResult& Replayer::Run(absl::Span<const int> order,
                         const ReplayOptions& options) {
  return engine_->Run(order, options);
}

}  // namespace asyra
