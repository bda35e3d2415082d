#include "ir/plans/verify_plan.h"

#include "absl/algorithm/container.h"
#include "ir/plans/plan_clocks.h"
#include "ir/plans/plan_exchanges.h"
#include "ir/plans/plan_meaning.h"
#include "ir/plans/plan_memory_check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Checks whether what the plan names exists.
class NameCheck {
 public:
  explicit NameCheck(const ChunkPlan& plan) : plan_(plan) {}

  absl::Status CheckSizes() const {
    auto ranks = static_cast<size_t>(plan_.ranks);
    if (plan_.ranks < 1 || plan_.ranks > kMaxPlanRanks ||
        plan_.steps.size() != ranks || plan_.buffers.size() != ranks) {
      return Invalid("the plan has {} ranks, steps of {} and buffers of {}",
                     plan_.ranks, plan_.steps.size(), plan_.buffers.size());
    }
    for (size_t r = 0; r < ranks; ++r) {
      for (const PlanBuffer& buffer : plan_.buffers[r]) {
        if (buffer.value < 0 || buffer.value >= plan_.body.num_values() ||
            buffer.box.rank() != plan_.types[buffer.value].rank()) {
          return Invalid("a buffer of rank {} holds %{}, which is no value", r,
                         buffer.value);
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckNames(int rank, const PlanStep& step) const {
    if (step.queue < 0 || step.queue >= static_cast<int>(plan_.queues.size())) {
      return Invalid("there is no queue {}", step.queue);
    }
    if (step.kind == PlanStep::kWait || step.kind == PlanStep::kPost) {
      return CheckSignal(rank, step);
    }
    for (const PlanRegion& region : step.reads) {
      ASYRA_RETURN_IF_ERROR(CheckRegion(region));
    }
    if (step.kind == PlanStep::kExchange) return CheckMessages(rank, step);
    ASYRA_RETURN_IF_ERROR(CheckRegion(step.write));
    if (plan_.buffer(step.write).role == PlanBuffer::kOperand) {
      return Invalid("it overwrites an operand");
    }
    bool copies = step.kind == PlanStep::kCopy;
    if (!copies && !plan_.queues[step.queue].computes) {
      return Invalid("queue {} does not compute",
                     plan_.queues[step.queue].name);
    }
    auto is_own = [&](const PlanRegion& region) { return region.rank == rank; };
    bool own_reads = absl::c_all_of(step.reads, is_own);
    bool local = own_reads && is_own(step.write);
    bool reaches =
        copies && step.reads.size() == 1 && (own_reads || is_own(step.write));
    if (local || reaches) return absl::OkStatus();
    return Invalid("it uses memory of ranks that it is not on");
  }

 private:
  absl::Status CheckMessages(int rank, const PlanStep& step) const {
    if (step.count < 1 || step.reads.size() != step.writes.size()) {
      return Invalid("exchange {} sends {} boxes to {}", step.count,
                     step.reads.size(), step.writes.size());
    }
    if (plan_.queues[step.queue].computes) {
      return Invalid("queue {} computes", plan_.queues[step.queue].name);
    }
    for (size_t i = 0; i < step.reads.size(); ++i) {
      ASYRA_RETURN_IF_ERROR(CheckRegion(step.writes[i]));
      if (plan_.buffer(step.writes[i]).role == PlanBuffer::kOperand) {
        return Invalid("it overwrites an operand of rank {}",
                       step.writes[i].rank);
      }
      if (step.reads[i].rank == rank && step.writes[i].rank != rank) continue;
      return Invalid("it sends from rank {} to rank {}", step.reads[i].rank,
                     step.writes[i].rank);
    }
    return absl::OkStatus();
  }

  absl::Status CheckRegion(const PlanRegion& region) const {
    if (region.rank < 0 || region.rank >= plan_.ranks || region.buffer < 0 ||
        region.buffer >= static_cast<int>(plan_.buffers[region.rank].size())) {
      return Invalid("there is no buffer {} of rank {}", region.buffer,
                     region.rank);
    }
    const Box& box = plan_.buffer(region).box;
    if (region.box.rank() == box.rank() && box.Contains(region.box) &&
        region.box.elements() > 0) {
      return absl::OkStatus();
    }
    return Invalid("{} is not in {}, which the buffer holds",
                   ToString(region.box), ToString(box));
  }

  absl::Status CheckSignal(int rank, const PlanStep& step) const {
    if (step.signal < 0 ||
        step.signal >= static_cast<int>(plan_.signals.size())) {
      return Invalid("there is no signal {}", step.signal);
    }
    const PlanSignal& signal = plan_.signals[step.signal];
    bool posts = step.kind == PlanStep::kPost;
    int its = posts ? signal.from_rank : signal.to_rank;
    int queue = posts ? signal.from_queue : signal.to_queue;
    if (its == rank && queue == step.queue) return absl::OkStatus();
    return Invalid("the signal is {} by rank {} on queue {}",
                   posts ? "posted" : "awaited", its, queue);
  }

  const ChunkPlan& plan_;
};

}  // namespace

absl::Status VerifyPlan(const ChunkPlan& plan,
                        const VerifyPlanOptions& options) {
  NameCheck names(plan);
  ASYRA_RETURN_IF_ERROR(names.CheckSizes());
  auto check_all = [&](auto check) -> absl::Status {
    for (int r = 0; r < plan.ranks; ++r) {
      for (size_t i = 0; i < plan.steps[r].size(); ++i) {
        absl::Status status = check(r, plan.steps[r][i]);
        if (status.ok()) continue;
        return Annotate(status, Describe(plan, r, static_cast<int>(i)));
      }
    }
    return absl::OkStatus();
  };
  ASYRA_RETURN_IF_ERROR(check_all([&](int rank, const PlanStep& step) {
    return names.CheckNames(rank, step);
  }));
  PlanExchanges exchanges(plan);
  ASYRA_RETURN_IF_ERROR(exchanges.Check());
  PlanMeaning meaning(plan);
  ASYRA_RETURN_IF_ERROR(check_all(
      [&](int, const PlanStep& step) { return meaning.Check(step); }));
  PlanClocks clocks(plan, exchanges, options.connections);
  ASYRA_RETURN_IF_ERROR(clocks.Find());
  ASYRA_RETURN_IF_ERROR(
      CheckPlanMemory(plan, exchanges, clocks, options.most_workspace_bytes));
  return clocks.CheckRepeats();
}

absl::StatusOr<PlanRef> ProvenPlan(ChunkPlan plan) {
  ASYRA_RETURN_IF_ERROR(VerifyPlan(plan));
  for (std::vector<PlanStep>& steps : plan.steps) {
    for (PlanStep& step : steps) step.line = step.column = 0;
  }
  return PlanRef(std::make_shared<const ChunkPlan>(std::move(plan)));
}

}  // namespace asyra
