// Chooses what a training step computes again (recompute.h), so that it fits
// into the memory of a device and loses least time.
//
// What a class of values saves is the difference of peaks of the program in its
// own order. What it costs is the difference of times that are expected: the
// mean of the makespan of a short search and of the lower bound (bound.h), as
// schedules come to lie between the two. So computing again is free where
// backward waits for communication in any schedule, but not where only the
// short search lets it wait. All of this is of a program of few layers
// (shorten.h). Which classes stay kept is then a knapsack: their value is what
// they would lose, their weight what they would save. The set is corrected by
// estimates of the whole set, since classes depend on each other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/pass_manager.h"
#include "passes/schedule/memory/stash.h"

namespace asyra {

// A training step by a short search for a schedule.
struct StepEstimate {
  double makespan_us = 0;
  double bound_us = 0;       // the lower bound of the schedules
  double ops_us = 0;         // of all ops, one after the other
  int64_t device_bytes = 0;  // in the program's own order

  // Returns the makespan expected after a long search.
  double expected_us() const { return (makespan_us + bound_us) / 2; }
};

struct RecomputeReport {
  std::vector<std::string> values;  // names of classes
  int count = 0;                    // of their ops
  StepEstimate kept, dropped;       // without and with computing again

  // Returns the part of what runs again that the schedule hides, between 0 and
  // 1.
  double Hidden() const;
};

struct RecomputeChoice {
  Program program;
  RecomputeReport report;
};

class RecomputeSearch {
 public:
  // Takes a local program before it is fused; `fuse` outlives this. Needs
  // context.costs. Estimates are shared by all calls.
  RecomputeSearch(Program program, const Pipeline& fuse, PassContext context);
  RecomputeSearch(const RecomputeSearch&) = delete;  // it refers to its program

  // Computes the classes of these names (ReadStashNames) again, or "all".
  absl::StatusOr<RecomputeChoice> Without(const std::string& names);

  // Returns the bytes that the step that keeps all takes beyond
  // `capacity_bytes` of a device; 0 or less if it fits.
  absl::StatusOr<int64_t> MissingBytes(int64_t capacity_bytes);

  // Returns the estimate of the whole step that keeps all.
  absl::StatusOr<StepEstimate> KeepsAll() {
    return WholeEstimate({}, program_);
  }

  // Returns the choice of least loss with which the step fits into
  // `capacity_bytes` of a device (0: any); what takes least memory if none
  // fits. None if all can be kept, or there is nothing that could be computed
  // again: it is no training step.
  absl::StatusOr<std::optional<RecomputeChoice>> Fit(int64_t capacity_bytes);

 private:
  using ClassSet = std::set<int>;  // indices of stash_.classes()

  // Returns the bytes that values may take beside what stays.
  int64_t BytesForValues(int64_t capacity_bytes) const;
  bool Fits(const StepEstimate& estimate) const;
  // Returns the ops of the classes in the program of `stash`, which may have
  // fewer layers.
  std::set<int> OpsOf(const ClassSet& classes, const Stash& stash) const;
  absl::StatusOr<Program> Drop(const ClassSet& classes, const Program& program,
                               const Stash& stash) const;
  double CutShare() const;
  absl::StatusOr<StepEstimate> Estimate(const ClassSet& dropped);
  absl::StatusOr<StepEstimate> EstimateOf(Program program,
                                          int64_t cut_bytes) const;
  absl::StatusOr<StepEstimate> WholeEstimate(const ClassSet& dropped,
                                             const Program& program);
  absl::StatusOr<RecomputeChoice> ChoiceOf(const ClassSet& dropped);
  absl::Status ValueEach();
  std::vector<int> ByLoss() const;
  absl::StatusOr<ClassSet> DropByKnapsack();
  absl::Status DropUntilItFits(ClassSet* dropped);
  absl::Status KeepWhatCan(ClassSet* dropped);

  const Program program_;
  const Pipeline& fuse_;
  const PassContext context_;
  const Stash stash_;
  // The program that is estimated: it has some more layers than an estimate, so
  // that ops are dropped and layers cut from a small program. `cut_share_` is
  // how many times as many bytes are cut from the whole program.
  const Program fewer_layers_;
  const Stash fewer_stash_;
  const double cut_share_;
  const int count_;  // of the classes, the first, that are tried
  const int64_t resident_bytes_;
  int64_t values_bytes_ = 0;  // what may be live beside these; 0: any number
  // Estimates of few layers, and of the whole program.
  std::map<ClassSet, StepEstimate> estimates_, whole_;
  std::vector<double> lost_us_;       // by class
  std::vector<int64_t> saved_bytes_;  // by class
};

}  // namespace asyra
