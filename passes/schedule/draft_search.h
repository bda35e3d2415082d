// What a schedule's drafts become by search: each in a better order, and the
// best of them with tiles merged, on other streams, carried by copy engines,
// with an SM margin and with collectives joined.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/schedule/draft.h"
#include "passes/schedule/schedule.h"

namespace asyra {

// The fastest first.
void SortDrafts(std::vector<Draft>* drafts);

class DraftSearch {
 public:
  // Of the local `program`. `capacity_bytes` of a device, 0: any number; all
  // else outlives this. Orders that are simulated are added to `steps`.
  DraftSearch(const Program& program, const ScheduleOptions& options,
              int64_t capacity_bytes, PassContext& context, int* steps)
      : program_(program),
        options_(options),
        capacity_bytes_(capacity_bytes),
        context_(context),
        steps_(*steps) {}

  // A draft of each number of tiles that the options allow, two or more.
  // Numbers that do not cut are added to `uncut`, unless they were asked for:
  // then that is the error.
  absl::StatusOr<std::vector<Draft>> TiledDrafts(
      std::vector<ScheduleChoice>* uncut);

  // Searches on with `tiled` for about so many steps in all, and returns them
  // and what is made of the best of them.
  absl::StatusOr<std::vector<Draft>> Round(int steps,
                                           std::vector<Draft>* tiled);

  // A first look at what `plan` makes of a program, this or another.
  absl::StatusOr<Draft> Make(const Program& program, const DraftPlan& plan);
  // Searches on for so many steps.
  void Improve(Draft* draft, int steps);

  // Takes so many bytes off the capacity from now on: gaps between values,
  // which the search does not see.
  void Reserve(int64_t bytes) { capacity_bytes_ -= bytes; }

 private:
  bool Searching() const { return options_.scheduler == "auto"; }
  bool MayLeaveMargin() const;
  OrderSearchOptions Steps(int steps) const {
    return {.steps = steps, .memory_bytes = capacity_bytes_};
  }
  // Of the values of `draft`, as BucketOptions has it.
  int64_t ValueBytesOf(const Draft& draft) const;
  absl::StatusOr<Draft> Tiled(int tiles);
  absl::Status MergeTiles(std::vector<Draft>* drafts, int windows, int steps);
  void TryLayouts(std::vector<Draft>* drafts, int steps);
  void TryCopies(std::vector<Draft>* drafts, int steps);
  void TrySmMargins(std::vector<Draft>* drafts, int steps);
  absl::Status TryJoins(std::vector<Draft>* drafts, int steps);

  const Program& program_;
  const ScheduleOptions& options_;
  int64_t capacity_bytes_;
  PassContext& context_;
  int& steps_;
};

}  // namespace asyra
