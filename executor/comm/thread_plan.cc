#include "executor/comm/thread_plan.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "executor/comm/thread_action.h"
#include "executor/comm/thread_exchange.h"
#include "executor/cpu/sum.h"
#include "ir/plans/plan_exchanges.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class CopyAction : public CpuAction {
 public:
  CopyAction(BoxCopy copy, Jitter jitter)
      : copy_(std::move(copy)), jitter_(jitter) {}

 protected:
  absl::Status Run() override {
    jitter_.Sleep();
    CopyBox(static_cast<const std::byte*>(copy_.from), copy_.from_box,
            static_cast<std::byte*>(copy_.to), copy_.to_box, copy_.what,
            copy_.element_bytes);
    return absl::OkStatus();
  }

 private:
  BoxCopy copy_;
  Jitter jitter_;
};

// Copies from or to the memory of another rank, which frees it only when nobody
// uses it any more.
class ReachingCopyAction : public CopyAction {
 public:
  ReachingCopyAction(const PlanContext& context, BoxCopy copy, Jitter jitter,
                     double link_us)
      : CopyAction(std::move(copy), jitter),
        context_(context),
        link_us_(link_us) {}

 private:
  absl::Status Run() override {
    if (link_us_ > 0) std::this_thread::sleep_for(Seconds(link_us_ / 1e6));
    if (!context_.world->BeginReach()) {
      return context_.world->CauseFor(context_.rank);
    }
    absl::Status status = CopyAction::Run();
    context_.world->EndReach();
    return status;
  }

  const PlanContext& context_;
  double link_us_;  // of a slow link, without using the cpu
};

class SumAction : public CpuAction {
 public:
  explicit SumAction(const DenseSum& sum)
      : dtype_(sum.dtype),
        elements_(sum.elements),
        to_(static_cast<std::byte*>(sum.to)) {
    for (const void* part : sum.parts) {
      parts_.push_back(static_cast<const std::byte*>(part));
    }
  }

 private:
  absl::Status Run() override {
    SumParts(dtype_, parts_, elements_, to_);
    return absl::OkStatus();
  }

  DType dtype_;
  std::vector<const std::byte*> parts_;
  int64_t elements_;
  std::byte* to_;
};

class PostAction : public CpuAction {
 public:
  PostAction(std::vector<Counter*> signals, Jitter jitter)
      : signals_(std::move(signals)), jitter_(jitter) {}

 private:
  absl::Status Run() override {
    for (Counter* signal : signals_) {
      jitter_.Sleep();
      signal->Add();
    }
    return absl::OkStatus();
  }

  std::vector<Counter*> signals_;
  Jitter jitter_;
};

// A count of a signal, which the rank `from` posts `a_step` times in each step.
struct AwaitedCount {
  Counter& signal;
  uint32_t target;  // in the next step
  uint32_t a_step;
  int64_t from;
};

class WaitAction : public CpuAction {
 public:
  WaitAction(const PlanContext& context, std::vector<AwaitedCount> counts)
      : context_(context), counts_(std::move(counts)) {}

 private:
  absl::Status Run() override {
    for (AwaitedCount& count : counts_) {
      uint32_t target = count.target;
      count.target += count.a_step;
      ASYRA_RETURN_IF_ERROR(
          AwaitCounter(context_, count.signal, target, count.from));
    }
    return absl::OkStatus();
  }

  const PlanContext& context_;
  std::vector<AwaitedCount> counts_;
};

class ThreadPlan : public PlanLink {
 public:
  ThreadPlan(std::shared_ptr<SharedWorld> world, int64_t rank,
             const PlanUse& use)
      : context_{std::move(world), rank, use.label},
        self_(use.self),
        members_(use.members),
        signals_(use.plan.signals),
        board_(context_.world->JoinPlan(
            rank, use.members, signals_.size(),
            static_cast<size_t>(PlanExchanges(use.plan).last()))),
        posts_(signals_.size(), 0) {
    for (const auto& of_rank : use.plan.steps) {
      for (const PlanStep& step : of_rank) {
        if (step.kind == PlanStep::kPost) ++posts_[step.signal];
      }
    }
    link_us_ = LinkUs(use.plan);
  }

  absl::Status Connect(std::vector<void*> buffers) override {
    board_->buffers[self_] = std::move(buffers);
    return context_.world->Exchange(context_.rank, context_.label).status();
  }
  void* AddressOf(int member, int buffer) const override {
    return board_->buffers[member][buffer];
  }

  Action Copy(const BoxCopy& copy, bool reaches) override {
    if (!reaches) return std::make_unique<CopyAction>(copy, MakeJitter());
    return std::make_unique<ReachingCopyAction>(context_, copy, MakeJitter(),
                                                link_us_);
  }
  Action Sum(const DenseSum& sum) override {
    return std::make_unique<SumAction>(sum);
  }
  Action Post(absl::Span<const PlanStep> posts) override {
    std::vector<Counter*> signals;
    for (const PlanStep& post : posts) {
      signals.push_back(&board_->signals[post.signal]);
    }
    return std::make_unique<PostAction>(std::move(signals), MakeJitter());
  }
  Action Wait(absl::Span<const PlanStep> waits) override {
    std::vector<AwaitedCount> counts;
    for (const PlanStep& wait : waits) {
      counts.push_back({board_->signals[wait.signal],
                        static_cast<uint32_t>(wait.count), posts_[wait.signal],
                        members_[signals_[wait.signal].from_rank]});
    }
    return std::make_unique<WaitAction>(context_, std::move(counts));
  }
  Action Exchange(const ExchangeCall& call) override {
    return MakeThreadExchange(context_, board_->seats[call.number - 1], self_,
                              members_, call, MakeJitter());
  }

 private:
  Jitter MakeJitter() {
    auto seed = static_cast<uint32_t>(context_.rank * 7919 + ++jitters_);
    return {context_.world->options().inject_jitter_us, seed};
  }

  // Returns the share of the time of a slow link that each copy to others
  // takes; the copies of a collective share that time.
  double LinkUs(const ChunkPlan& plan) const {
    auto collectives = absl::c_count_if(plan.body.ops, [](const BodyOp& op) {
      return op.def->collective != CollectiveKind::kNone;
    });
    auto reaching =
        absl::c_count_if(plan.steps[self_], [&](const PlanStep& step) {
          return step.kind == PlanStep::kCopy &&
                 (step.reads[0].rank != self_ || step.write.rank != self_);
        });
    if (reaching == 0) return 0;
    return context_.world->options().inject_comm_us *
           static_cast<double>(collectives) / static_cast<double>(reaching);
  }

  const PlanContext context_;
  const int self_;
  const std::vector<int64_t> members_;
  const std::vector<PlanSignal> signals_;
  std::shared_ptr<PlanBoard> board_;
  std::vector<uint32_t> posts_;  // of a step, by signal
  double link_us_ = 0;
  int64_t jitters_ = 0;
};

}  // namespace

std::unique_ptr<PlanLink> MakeThreadPlan(std::shared_ptr<SharedWorld> world,
                                         int64_t rank, const PlanUse& use) {
  return std::make_unique<ThreadPlan>(std::move(world), rank, use);
}

}  // namespace asyra
