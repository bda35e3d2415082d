#include "simulator/cost/plan_replay.h"

#include <algorithm>
#include <limits>

#include "ir/gpu/vector_bytes.h"
#include "ir/plans/plan_exchanges.h"
#include "ir/plans/plan_packing.h"
#include "simulator/cost/collective_cost.h"
#include "simulator/cost/energy.h"
#include "simulator/cost/exchange_cost.h"
#include "simulator/cost/sharing.h"

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
  // The share of the SMs that a piece uses, and of its speed that an exchange
  // keeps beside one that uses all.
  double sms = 0, beside_compute = 1;
};

class PlanReplay {
 public:
  PlanReplay(const ChunkPlan& plan, const CostModel& costs,
             const PlanSetting& setting)
      : plan_(plan),
        costs_(costs),
        setting_(setting),
        exchanges_(plan),
        pieces_(CostModel(costs.machine(), Mesh()).AtClock(costs.clock_mhz())),
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
    copied_us_ = hbm_us_ = sms_us_ = math_us_ = computed_us_;
    energy_.resize(plan.ranks);
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
    times_.math_us = math_us_[busiest];
    times_.energy = energy_[busiest];
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
      // Their kernels have priority.
      progress = StartExchanges();
      for (Queue& queue : queues_) {
        while (!queue.running && queue.next < queue.steps.size()) {
          const PlanStep& step = StepOf(queue);
          if (step.kind == PlanStep::kPost && StaysInRank(step.signal)) {
            Finish(&queue);
          } else if (step.kind == PlanStep::kWait) {
            if (SeenAt(step) > now_) break;
            if (WaitUs(queue) > 0) {
              Hold(WaitUs(queue), &queue);
              break;
            }
            Finish(&queue);
          } else if (step.kind == PlanStep::kExchange) {
            break;
          } else {
            Begin(step, &queue);
            break;
          }
          progress = true;
        }
      }
    }
  }

  bool StartExchanges() {
    bool any = false;
    while (next_exchange_ <= exchanges_.last()) {
      std::vector<Queue*> queues = QueuesAtExchange();
      if (queues.empty()) break;
      double us = ExchangeUs(queues);
      for (Queue* queue : queues) {
        Hold(us, queue);
        PackMessages(StepOf(*queue), queue);
      }
      ++next_exchange_;
      any = true;
    }
    return any;
  }

  // Returns the queues of the next exchange if it can begin, else none.
  std::vector<Queue*> QueuesAtExchange() {
    std::vector<Queue*> queues;
    for (const PlanExchanges::Part& part : exchanges_.Parts(next_exchange_)) {
      size_t first = part.rank * plan_.queues.size();
      Queue& queue = queues_[first + plan_.steps[part.rank][part.step].queue];
      bool here = !queue.running && queue.next < queue.steps.size() &&
                  queue.steps[queue.next] == part.step;
      bool fits = setting_.sm_margin > 0 || SmsInUse(part.rank) == 0;
      if (!here || !fits) return {};
      queues.push_back(&queue);
    }
    return queues;
  }

  // Returns the share of the SMs that a rank's running piece uses.
  double SmsInUse(int rank) const {
    double sms = 0;
    for (size_t q = 0; q < plan_.queues.size(); ++q) {
      const Queue& queue = queues_[rank * plan_.queues.size() + q];
      if (queue.running) sms = std::max(sms, queue.sms);
    }
    return sms;
  }

  double ExchangeUs(const std::vector<Queue*>& queues) {
    ExchangeTraffic traffic(plan_.ranks);
    for (const Queue* queue : queues) {
      const PlanStep& step = StepOf(*queue);
      for (size_t i = 0; i < step.reads.size(); ++i) {
        traffic.Add(queue->rank, step.writes[i].rank,
                    static_cast<double>(BytesOf(plan_, step.reads[i])));
      }
    }
    OpCost cost =
        costs_.ExchangeCost(traffic, setting_.axes, setting_.sm_margin);
    for (Queue* queue : queues) {
      queue->beside_compute = cost.beside_compute;
      energy_[queue->rank].Add(cost.energy);
    }
    return cost.time_us;
  }

  void PackMessages(const PlanStep& step, Queue* queue) {
    MessagePacking packing = MessagePackingOf(
        plan_, step, exchanges_.Incoming(queue->rank, step.count));
    for (int64_t bytes : packing.copies) {
      queue->fixed_us += CopyCost(2 * static_cast<double>(bytes)).time_us;
      times_.packed_bytes += bytes;
    }
  }

  // Returns the speed at which a step's fixed time passes.
  double SpeedOf(const Queue& queue) const {
    if (StepOf(queue).kind != PlanStep::kExchange) return 1;
    double filled = kNotWaiting * SmsInUse(queue.rank);
    return 1 - filled * (1 - queue.beside_compute);
  }

  // An exchange is seen when others have come to it.
  double SeenAt(const PlanStep& wait) const {
    if (wait.kind == PlanStep::kExchange) return kNever;
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

  bool JoinsBefore(const Queue& queue) const {
    return JoinsStepBefore(plan_, queue.rank, queue.steps[queue.next]);
  }
  // Returns the time of a wait whose signal has been seen, on a queue that
  // computes: the next kernel begins behind it.
  double WaitUs(const Queue& queue) const {
    const PlanStep& wait = StepOf(queue);
    bool holds = plan_.queues[wait.queue].computes &&
                 !StaysInRank(wait.signal) && !JoinsBefore(queue);
    return holds ? kCopyAwaitUs : 0;
  }

  void Hold(double us, Queue* queue) {
    queue->running = true;
    queue->start_us = now_;
    queue->bytes = 0;
    queue->fixed_us = us;
    queue->sms = 0;
  }

  void Begin(const PlanStep& step, Queue* queue) {
    Hold(0, queue);
    if (step.kind == PlanStep::kPost) {
      queue->fixed_us = JoinsBefore(*queue) ? kCopyMoreFlagUs : kCopyFlagUs;
      return;
    }
    auto bytes = static_cast<double>(BytesOf(plan_, step.write));
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
      energy_[queue->from].bytes_uj += LinkEnergyUj(machine().gpu, bytes);
    }
  }

  OpCost PieceCost(const PlanStep& step) {
    if (plan_.body.ops[step.op].def->is_view) return {};
    PieceCall piece(plan_, step);
    const OpCall& call = piece.call();
    absl::Span<const Type> operands = call.operands;
    // Ranks compute pieces of the same size.
    for (const Known& known : known_) {
      if (known.op == step.op && known.operands == operands) return known.cost;
    }
    AttrMap attrs = call.attrs;
    if (setting_.sm_margin > 0) {
      attrs.Set("sm_margin", int64_t{setting_.sm_margin});
    }
    OpCost cost = pieces_.Cost({call.def, attrs, call.operands, call.results});
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
    cost.energy.bytes_uj = MemoryEnergyUj(machine().gpu, moved_bytes);
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
    queue->sms = std::max(queue->sms, cost.load[kSms]);
    computed_us_[queue->rank] += cost.time_us;
    hbm_us_[queue->rank] += cost.time_us * cost.load[kHbm];
    sms_us_[queue->rank] += cost.time_us * cost.load[kSms];
    if (cost.limit == OpCost::kMath) math_us_[queue->rank] += cost.math_us;
    energy_[queue->rank].Add(cost.energy);
  }

  void Finish(Queue* queue) {
    const PlanStep& step = StepOf(*queue);
    bool works = queue->running;
    if (step.kind == PlanStep::kPost) Post(step.signal);
    times_.spans.push_back({queue->rank, queue->steps[queue->next],
                            works ? queue->start_us : now_, now_});
    if (works && step.kind == PlanStep::kCopy) {
      copied_us_[step.reads[0].rank] += now_ - queue->start_us;
    } else if (step.kind == PlanStep::kExchange) {
      copied_us_[queue->rank] += now_ - queue->start_us;
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
        double left = Moves(queue) ? queue.bytes / RateOf(queue)
                                   : queue.fixed_us / SpeedOf(queue);
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
    std::vector<double> rates, speeds;
    for (const Queue& queue : queues_) {
      rates.push_back(Moves(queue) ? RateOf(queue) : 0);
      speeds.push_back(queue.running ? SpeedOf(queue) : 1);
    }
    now_ = next;
    for (size_t i = 0; i < queues_.size(); ++i) {
      Queue& queue = queues_[i];
      if (!queue.running) continue;
      if (rates[i] > 0) {
        queue.bytes -= elapsed * rates[i];
      } else {
        queue.fixed_us -= elapsed * speeds[i];
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
  const PlanSetting& setting_;
  const PlanExchanges exchanges_;
  int next_exchange_ = 1;
  CostModel pieces_;  // local types, on no mesh
  std::vector<Queue> queues_;
  std::vector<std::vector<double>> seen_us_;  // by signal and count
  std::vector<Known> known_;
  // By rank.
  std::vector<double> computed_us_, copied_us_, hbm_us_, sms_us_, math_us_;
  std::vector<OpEnergy> energy_;
  double now_ = 0;
  PlanTimes times_;
};

}  // namespace

PlanTimes ReplayPlan(const ChunkPlan& plan, const CostModel& costs,
                     const PlanSetting& setting) {
  return PlanReplay(plan, costs, setting).Run();
}

}  // namespace asyra
