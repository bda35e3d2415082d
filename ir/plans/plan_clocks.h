// The order of the steps of a chunk plan, whatever the speed of its queues:
// vector clocks over queues and signals. Part of ir/plans/verify_plan.h.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ir/plans/chunk_plan.h"

namespace asyra {

class PlanClocks {
 public:
  // Takes a plan whose steps name existing queues and signals. `connections` as
  // VerifyPlanOptions has it.
  PlanClocks(const ChunkPlan& plan, int connections);

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

  absl::Status CheckCounts();
  absl::Status FindOrder();
  bool CanRun(int node, const std::vector<bool>& done) const;
  void Run(int node);
  int ConnectionOf(int queue) const {
    return connections_ > 0 ? queue % connections_ : queue;
  }
  int num_queues() const { return static_cast<int>(plan_.queues.size()); }
  int Slot(int node) const {
    return nodes_[node].rank * num_queues() + StepOf(node).queue;
  }

  const ChunkPlan& plan_;
  const int connections_;
  std::vector<StepId> nodes_;
  std::vector<std::vector<int>> post_of_;    // by signal, nodes by count
  std::vector<std::vector<int>> clock_;      // by node and slot
  std::vector<int> position_;                // by node, on its queue, from 1
  std::vector<int> passed_, last_of_queue_;  // by slot, while they run
};

}  // namespace asyra
