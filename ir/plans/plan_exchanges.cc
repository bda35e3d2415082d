#include "ir/plans/plan_exchanges.h"

#include "absl/algorithm/container.h"
#include "ir/support/status.h"

namespace asyra {

bool HasExchanges(const ChunkPlan& plan) {
  return absl::c_any_of(plan.steps, [](const std::vector<PlanStep>& steps) {
    return absl::c_any_of(steps, [](const PlanStep& step) {
      return step.kind == PlanStep::kExchange;
    });
  });
}

PlanExchanges::PlanExchanges(const ChunkPlan& plan) : plan_(plan) {
  for (int r = 0; r < plan.ranks; ++r) {
    for (size_t i = 0; i < plan.steps[r].size(); ++i) {
      const PlanStep& step = plan.steps[r][i];
      if (step.kind != PlanStep::kExchange) continue;
      parts_[step.count].push_back({r, static_cast<int>(i)});
    }
  }
}

std::vector<PlanExchanges::Message> PlanExchanges::Incoming(int rank,
                                                            int number) const {
  std::vector<Message> messages;
  for (const Part& part : Parts(number)) {
    const PlanStep& step = plan_.steps[part.rank][part.step];
    for (size_t i = 0; i < step.writes.size(); ++i) {
      if (step.writes[i].rank != rank) continue;
      messages.push_back({step.reads[i], step.writes[i]});
    }
  }
  return messages;
}

std::vector<int> PlanExchanges::SendersTo(int rank, int number) const {
  std::vector<int> senders;
  for (const Message& message : Incoming(rank, number)) {
    int sender = message.read.rank;
    if (senders.empty() || senders.back() != sender) senders.push_back(sender);
  }
  return senders;
}

namespace {

// Returns whether a copy or a signal is between two ranks.
bool IsBetweenRanks(const ChunkPlan& plan, const PlanStep& step) {
  switch (step.kind) {
    case PlanStep::kCopy:
      return step.reads[0].rank != step.write.rank;
    case PlanStep::kPost:
    case PlanStep::kWait:
      return plan.signals[step.signal].from_rank !=
             plan.signals[step.signal].to_rank;
    default:
      return false;
  }
}

}  // namespace

absl::Status PlanExchanges::Check() const {
  if (last() > static_cast<int>(parts_.size())) {
    return Invalid("of {} exchanges the last is number {}", parts_.size(),
                   last());
  }
  for (int r = 0; r < plan_.ranks; ++r) {
    int last = 0, queue = -1;
    for (size_t i = 0; i < plan_.steps[r].size(); ++i) {
      const PlanStep& step = plan_.steps[r][i];
      auto error = [&](std::string_view what) {
        return Annotate(Invalid("{}", what),
                        Describe(plan_, r, static_cast<int>(i)));
      };
      if (!empty() && IsBetweenRanks(plan_, step)) {
        return error("it reaches another rank, in a plan with exchanges");
      }
      if (step.kind != PlanStep::kExchange) continue;
      if (step.count <= last) {
        return error(
            fmt::format("it comes behind exchange {}: all ranks make "
                        "these calls in the order of their numbers",
                        last));
      }
      if (queue >= 0 && step.queue != queue) {
        return error(fmt::format("exchange {} of this rank is on queue {}",
                                 last, plan_.queues[queue].name));
      }
      last = step.count;
      queue = step.queue;
      for (const PlanRegion& write : step.writes) {
        bool joins = absl::c_any_of(Parts(step.count), [&](const Part& part) {
          return part.rank == write.rank;
        });
        if (joins) continue;
        return error(fmt::format("rank {} has no part in exchange {}",
                                 write.rank, step.count));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace asyra
