#include "simulator/cost/plan_cost.h"

#include <algorithm>
#include <limits>

#include "absl/algorithm/container.h"
#include "ir/copy_engine.h"
#include "ir/gpu/vector_bytes.h"
#include "ir/overlap.h"
#include "ir/plans/fused_reduction.h"
#include "ir/plans/overlap_shape.h"
#include "ir/plans/plan_packing.h"
#include "simulator/cost/collective_cost.h"
#include "simulator/cost/cost_sequence.h"
#include "simulator/cost/fused_reduction_cost.h"

namespace asyra {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// A queue of a rank.
struct Queue {
  int rank = 0;
  std::vector<int> steps;
  size_t next = 0;
  bool running = false;
  double start_us = 0;
  // Left of the current step: a time, and then bytes over links.
  double fixed_us = 0, bytes = 0;
  int from = -1, to = -1;  // of bytes
};

class PlanReplay {
 public:
  PlanReplay(const ChunkPlan& plan, const CostModel& costs)
      : plan_(plan),
        costs_(costs),
        pieces_(CostModel(costs.machine(), Mesh())),
        seen_us_(plan.signals.size()) {
    for (int r = 0; r < plan.ranks; ++r) {
      size_t first = queues_.size();
      for (size_t q = 0; q < plan.queues.size(); ++q) queues_.push_back({r});
      for (size_t i = 0; i < plan.steps[r].size(); ++i) {
        queues_[first + plan.steps[r][i].queue].steps.push_back(
            static_cast<int>(i));
      }
    }
    computed_us_.assign(plan.ranks, 0);
    copied_us_ = hbm_us_ = sms_us_ = computed_us_;
  }

  PlanTimes Run() {
    while (true) {
      StartWhatCan();
      double next = NextEvent();
      if (next == kNever) break;
      Advance(next);
    }
    // Other queues begin after an event of the first, which waits for theirs.
    times_.time_us = now_ + 2 * machine().gpu.kernel_us;
    size_t busiest =
        std::max_element(computed_us_.begin(), computed_us_.end()) -
        computed_us_.begin();
    times_.compute_us = computed_us_[busiest];
    times_.hbm_us = hbm_us_[busiest];
    times_.sms_us = sms_us_[busiest];
    times_.copy_us = *std::max_element(copied_us_.begin(), copied_us_.end());
    return std::move(times_);
  }

 private:
  const Machine& machine() const { return costs_.machine(); }
  double LinkBytesPerUs() const { return machine().copy_gbps.achievable * 1e3; }
  double MemoryBytesPerUs() const {
    return machine().gpu.hbm_gbps.achievable * 1e3;
  }

  const PlanStep& StepOf(const Queue& queue) const {
    return plan_.steps[queue.rank][queue.steps[queue.next]];
  }

  // Posts inside a rank end at once, and waits when their signal is seen.
  void StartWhatCan() {
    for (bool progress = true; progress;) {
      progress = false;
      for (Queue& queue : queues_) {
        while (!queue.running && queue.next < queue.steps.size()) {
          const PlanStep& step = StepOf(queue);
          if (step.kind == PlanStep::kPost && StaysInRank(step.signal)) {
            Finish(&queue);
          } else if (step.kind == PlanStep::kWait) {
            if (SeenAt(step) > now_) break;
            Finish(&queue);
          } else {
            Begin(step, &queue);
            break;
          }
          progress = true;
        }
      }
    }
  }

  double SeenAt(const PlanStep& wait) const {
    const std::vector<double>& seen = seen_us_[wait.signal];
    if (static_cast<int>(seen.size()) < wait.count) return kNever;
    return seen[wait.count - 1];
  }

  bool StaysInRank(int signal) const {
    const PlanSignal& its = plan_.signals[signal];
    return its.from_rank == its.to_rank;
  }

  void Post(int signal) {
    seen_us_[signal].push_back(
        now_ + (StaysInRank(signal) ? machine().gpu.kernel_us : kCopySignalUs));
  }

  void Begin(const PlanStep& step, Queue* queue) {
    queue->running = true;
    queue->start_us = now_;
    queue->bytes = 0;
    queue->fixed_us = 0;
    if (step.kind == PlanStep::kPost) {
      queue->fixed_us = kCopyFlagUs;
      return;
    }
    auto bytes = static_cast<double>(step.write.box.elements() *
                                     SizeOf(plan_.dtype(step.write)));
    if (step.kind == PlanStep::kPiece || step.kind == PlanStep::kSum) {
      // All parts of a sum are read once, the sum is written.
      Compute(
          queue,
          step.kind == PlanStep::kPiece
              ? PieceCost(step)
              : CopyCost(bytes * static_cast<double>(step.reads.size() + 1)));
      Pack(step, queue);
      return;
    }
    queue->fixed_us = kCopyIssueUs;
    queue->from = step.reads[0].rank;
    queue->to = step.write.rank;
    if (queue->from == queue->to) {
      queue->fixed_us += 2 * bytes / MemoryBytesPerUs();
    } else {
      queue->bytes = bytes;
    }
  }

  OpCost PieceCost(const PlanStep& step) {
    if (plan_.body.ops[step.op].def->is_view) return {};
    PieceCall piece(plan_, step);
    absl::Span<const Type> operands = piece.call().operands;
    // Ranks compute pieces of the same size.
    for (const Known& known : known_) {
      if (known.op == step.op && known.operands == operands) return known.cost;
    }
    OpCost cost = pieces_.Cost(piece.call());
    known_.push_back({step.op, {operands.begin(), operands.end()}, cost});
    times_.source = std::max(times_.source, cost.source);
    return cost;
  }

  // Returns the cost of a kernel that reads and writes so many bytes and does
  // little else.
  OpCost CopyCost(double moved_bytes) const {
    OpCost cost;
    double busy_us = moved_bytes / MemoryBytesPerUs();
    cost.time_us = machine().gpu.kernel_us + busy_us;
    cost.load[kHbm] = busy_us / cost.time_us;
    cost.load[kSms] =
        cost.load[kHbm] * machine().gpu.hbm_sms / machine().gpu.sms;
    return cost;
  }

  // Boxes that kernels do not take where they are are copied, as executors do.
  void Pack(const PlanStep& step, Queue* queue) {
    for (int64_t bytes : StepPackingOf(plan_, step, kGpuVectorBytes).copies) {
      Compute(queue, CopyCost(2 * static_cast<double>(bytes)));
      times_.packed_bytes += bytes;
    }
  }

  void Compute(Queue* queue, const OpCost& cost) {
    queue->fixed_us += cost.time_us;
    computed_us_[queue->rank] += cost.time_us;
    hbm_us_[queue->rank] += cost.time_us * cost.load[kHbm];
    sms_us_[queue->rank] += cost.time_us * cost.load[kSms];
  }

  void Finish(Queue* queue) {
    const PlanStep& step = StepOf(*queue);
    bool works = queue->running;
    if (step.kind == PlanStep::kPost) Post(step.signal);
    times_.spans.push_back({queue->rank, queue->steps[queue->next],
                            works ? queue->start_us : now_, now_});
    if (works && step.kind == PlanStep::kCopy) {
      copied_us_[step.reads[0].rank] += now_ - queue->start_us;
    }
    queue->running = false;
    ++queue->next;
  }

  // Bytes per us of a copy that is past its issue.
  double RateOf(const Queue& copy) const {
    int out = 0, in = 0;
    for (const Queue& queue : queues_) {
      if (!Moves(queue)) continue;
      out += queue.from == copy.from;
      in += queue.to == copy.to;
    }
    return LinkBytesPerUs() / std::max({out, in, 1});
  }
  static bool Moves(const Queue& queue) {
    return queue.running && queue.fixed_us <= 0 && queue.bytes > 0;
  }

  double NextEvent() const {
    double next = kNever;
    for (const Queue& queue : queues_) {
      if (queue.running) {
        double left =
            Moves(queue) ? queue.bytes / RateOf(queue) : queue.fixed_us;
        next = std::min(next, now_ + left);
      } else if (queue.next < queue.steps.size()) {
        next = std::min(next, SeenAt(StepOf(queue)));
      }
    }
    return next;
  }

  void Advance(double next) {
    constexpr double kRounding = 1e-6;  // us, and bytes
    double elapsed = next - now_;
    std::vector<double> rates;
    for (const Queue& queue : queues_) {
      rates.push_back(Moves(queue) ? RateOf(queue) : 0);
    }
    now_ = next;
    for (size_t i = 0; i < queues_.size(); ++i) {
      Queue& queue = queues_[i];
      if (!queue.running) continue;
      if (rates[i] > 0) {
        queue.bytes -= elapsed * rates[i];
      } else {
        queue.fixed_us -= elapsed;
      }
      if (queue.fixed_us <= kRounding) queue.fixed_us = 0;
      if (queue.bytes <= kRounding * LinkBytesPerUs()) queue.bytes = 0;
      if (queue.fixed_us == 0 && queue.bytes == 0) Finish(&queue);
    }
  }

  struct Known {
    int op;
    std::vector<Type> operands;
    OpCost cost;
  };

  const ChunkPlan& plan_;
  const CostModel& costs_;
  CostModel pieces_;  // local types, on no mesh
  std::vector<Queue> queues_;
  std::vector<std::vector<double>> seen_us_;  // by signal and count
  std::vector<Known> known_;
  std::vector<double> computed_us_, copied_us_, hbm_us_, sms_us_;  // by rank
  double now_ = 0;
  PlanTimes times_;
};

// The ops of the body one after the other.
OpCost SequenceCost(const Body& body, const OpCall& call,
                    const CostModel& costs) {
  CostSequence sequence;
  auto types = OverlapTypes(body, call.operands, costs.mesh());
  if (!types.ok()) return sequence.Sum();
  for (size_t i = 0; i < body.ops.size(); ++i) {
    sequence.Add(costs.Cost(BodyCall(body, i, *types).call()));
  }
  return sequence.Sum();
}

}  // namespace

PlanTimes ReplayPlan(const ChunkPlan& plan, const CostModel& costs) {
  return PlanReplay(plan, costs).Run();
}

bool CanCarryPlans(const Body& body, const CostModel& costs) {
  return absl::c_all_of(body.ops, [&](const BodyOp& op) {
    return op.def->collective == CollectiveKind::kNone ||
           CopyEnginesReach(costs.machine(),
                            costs.SpanOf(op.attrs.Get<AxisList>("axes")));
  });
}

OpCost CopyEngineCost(const OpCall& call, const CostModel& costs) {
  AttrMap copied = call.attrs;
  AskForCopyEngine(true, &copied);
  return costs.Cost({call.def, copied, call.operands, call.results});
}

OpCost FastestTransportCost(const OpCall& call, const CostModel& costs) {
  OpCost library = costs.Cost(call), engines = CopyEngineCost(call, costs);
  return engines.time_us < library.time_us ? engines : library;
}

OverlapTimeline OverlapTimelineOf(const OpCall& call, const CostModel& costs) {
  OverlapTimeline timeline;
  if (!CanCarryPlans(*BodyOf(call.attrs), costs)) return timeline;
  auto plan = UnprovenPlanOf(call.attrs, call.operands, costs.mesh());
  if (!plan.ok()) return timeline;
  PlanTimes times = ReplayPlan(*plan, costs);
  timeline.time_us = times.time_us;
  // The same time is left at the end.
  double begin_us = costs.machine().gpu.kernel_us;
  for (const PlanSpan& span : times.spans) {
    const PlanStep& step = plan->steps[span.rank][span.step];
    bool works = step.kind != PlanStep::kWait && step.kind != PlanStep::kPost;
    if (span.rank != 0 || !works) continue;
    std::string name = Describe(*plan, span.rank, span.step);
    timeline.steps.push_back(
        {plan->queues[step.queue].name, name.substr(name.find(": ") + 2),
         step.kind == PlanStep::kCopy, begin_us + span.start_us,
         begin_us + span.end_us});
  }
  return timeline;
}

OpCost OverlapCost(const OpCall& call, const CostModel& costs) {
  const Body& body = *BodyOf(call.attrs);
  bool carried = CanCarryPlans(body, costs);
  if (IsOneKernel(call.attrs)) {
    return carried ? FusedReductionCost(call, costs)
                   : SplitReductionCost(call, costs);
  }
  if (!carried) return SequenceCost(body, call, costs);
  auto plan = UnprovenPlanOf(call.attrs, call.operands, costs.mesh());
  if (!plan.ok()) return {};
  PlanTimes times = ReplayPlan(*plan, costs);
  OpCost cost;
  cost.is_compute = true;
  cost.time_us = times.time_us;
  cost.load[kHbm] = std::min(1.0, times.hbm_us / times.time_us);
  cost.load[kSms] = std::min(1.0, times.sms_us / times.time_us);
  cost.load[kCtaSlots] = std::min(1.0, times.compute_us / times.time_us);
  double moving = std::min(1.0, times.copy_us / times.time_us);
  cost.load[kLink] = cost.load[kCopyEngines] = moving;
  cost.limit =
      times.compute_us > times.copy_us ? OpCost::kMath : OpCost::kLinkBytes;
  // No table has whole plans.
  cost.source = std::max(times.source, OpCost::kExtrapolated);
  return cost;
}

}  // namespace asyra
