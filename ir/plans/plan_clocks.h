// The order of the steps of a chunk plan, whatever the speed of its queues:
// vector clocks over queues, signals and exchanges. Part of
// ir/plans/verify_plan.h.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/plans/chunk_plan.h"
#include "ir/plans/plan_exchanges.h"

namespace asyra {

class PlanClocks {
 public:
  // Takes a plan whose steps name existing queues and signals, and its
  // exchanges, which PlanExchanges::Check accepts; both outlive it.
  // `connections` as VerifyPlanOptions has it.
  PlanClocks(const ChunkPlan& plan, const PlanExchanges& exchanges,
             int connections);

  // To be called first. Errors: counts of a signal that are not in order, waits
  // without a post, posts that nobody waits for, a deadlock.
  absl::Status Find();
  // Error: a signal that the next step of the program may post before this one
  // has waited for it.
  absl::Status CheckRepeats() const;

  // Steps of all ranks by number.
  int size() const { return static_cast<int>(nodes_.size()); }
  int RankOf(int node) const { return nodes_[node].rank; }
  const PlanStep& StepOf(int node) const {
    return plan_.steps[nodes_[node].rank][nodes_[node].step];
  }
  std::string Name(int node) const {
    return Describe(plan_, nodes_[node].rank, nodes_[node].step);
  }
  // The error with the step before it.
  absl::Status At(int node, const absl::Status& status) const;

  bool Before(int a, int b) const {
    return a != b && clock_[b][Slot(a)] >= position_[a];
  }
  // The op of the rank has begun before the step.
  bool BegunBefore(int rank, int node) const;
  // It ends only after the step.
  bool EndsAfter(int rank, int node) const;

 private:
  struct StepId {
    int rank = 0;
    int step = 0;
  };

  // The steps of a rank that share a connection, in order of issue.
  struct Lane {
    std::vector<int> nodes;
    size_t next = 0;
  };

  absl::Status CheckCounts();
  absl::Status FindOrder();
  absl::Status Deadlock() const;
  // Runs all steps of a lane that can run; returns their number.
  size_t RunLane(Lane* lane);
  bool CanRun(int node) const;
  // The parts of an exchange, if all ranks have come to it; else none.
  std::vector<int> ReadyExchange(int number) const;
  void Run(absl::Span<const int> exchange);
  void Run(int node);
  void Join(int earlier, int node);
  void Pass(int node);
  int NodeOf(const PlanExchanges::Part& part) const {
    return first_node_[part.rank] + part.step;
  }
  Lane& LaneOf(int node) {
    return lanes_[{nodes_[node].rank, ConnectionOf(StepOf(node).queue)}];
  }
  const Lane& LaneOf(int node) const {
    return lanes_.at({nodes_[node].rank, ConnectionOf(StepOf(node).queue)});
  }
  int ConnectionOf(int queue) const {
    return connections_ > 0 ? queue % connections_ : queue;
  }
  int num_queues() const { return static_cast<int>(plan_.queues.size()); }
  int Slot(int node) const {
    return nodes_[node].rank * num_queues() + StepOf(node).queue;
  }

  const ChunkPlan& plan_;
  const PlanExchanges& exchanges_;
  const int connections_;
  std::vector<StepId> nodes_;
  std::vector<int> first_node_;                // by rank
  std::map<std::pair<int, int>, Lane> lanes_;  // by rank and connection
  std::vector<bool> done_;                     // by node
  std::vector<std::vector<int>> post_of_;      // by signal, nodes by count
  std::vector<std::vector<int>> clock_;        // by node and slot
  std::vector<int> position_;                  // by node, on its queue, from 1
  std::vector<int> passed_, last_of_queue_;    // by slot, while they run
};

}  // namespace asyra
