// What a schedule's candidates become by search: each in a better order, and
// the best of them with tiles merged, on other streams, carried by copy
// engines, with an SM margin and with collectives joined.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/schedule/candidate.h"
#include "passes/schedule/schedule.h"

namespace asyra {

// The fastest first.
void SortCandidates(std::vector<Candidate>* candidates);

class CandidateSearch {
 public:
  // Of the local `program`. `capacity_bytes` of a device, 0: any number; all
  // else outlives this. Orders that are simulated are added to `steps`.
  CandidateSearch(const Program& program, const ScheduleOptions& options,
                  int64_t capacity_bytes, PassContext& context, int* steps)
      : program_(program),
        options_(options),
        capacity_bytes_(capacity_bytes),
        context_(context),
        steps_(*steps) {}

  // A candidate of each number of tiles that the options allow, two or more.
  // Numbers that do not cut are added to `uncut`, unless they were asked for:
  // then that is the error.
  absl::StatusOr<std::vector<Candidate>> TiledCandidates(
      std::vector<ScheduleChoice>* uncut);

  // Searches on with `tiled` for about so many steps in all, and returns them
  // and what is made of the best of them.
  absl::StatusOr<std::vector<Candidate>> Round(int steps,
                                               std::vector<Candidate>* tiled);

  // A first look at what `plan` makes of a program, this or another.
  absl::StatusOr<Candidate> Make(const Program& program,
                                 const CandidatePlan& plan);
  // Searches on for so many steps.
  void Improve(Candidate* candidate, int steps);

  // Takes so many bytes off the capacity from now on: gaps between values,
  // which the search does not see.
  void Reserve(int64_t bytes) { capacity_bytes_ -= bytes; }

 private:
  bool Searching() const { return options_.scheduler == "auto"; }
  // Whether options and machine leave it to the search.
  bool IsOpen(const Decision& decision) const;
  OrderSearchOptions Steps(int steps) const {
    return {.steps = steps, .memory_bytes = capacity_bytes_};
  }
  // Of the values of `candidate`, as BucketOptions has it.
  int64_t ValueBytesOf(const Candidate& candidate) const;
  absl::StatusOr<Candidate> Tiled(int tiles);
  absl::Status MergeTiles(std::vector<Candidate>* candidates, int windows,
                          int steps);
  absl::Status Try(const Decision& decision, std::vector<Candidate>* candidates,
                   int steps);
  absl::Status TryJoins(std::vector<Candidate>* candidates, int steps);

  const Program& program_;
  const ScheduleOptions& options_;
  int64_t capacity_bytes_;
  PassContext& context_;
  int& steps_;
};

}  // namespace asyra
