// What a schedule's drafts become by search: each in a better order, and the
// best of them with tiles merged, on other streams, carried by copy engines and
// with products that spare processors.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "passes/draft.h"
#include "passes/schedule.h"

namespace asyra {

// Steps for a first look at a draft.
inline constexpr int kFirstLook = 24;

// The fastest first.
void SortDrafts(std::vector<Draft>* drafts);

class DraftSearch {
 public:
  // `memory_bytes` as OrderSearchOptions takes it; all else outlives this.
  // Orders that are simulated are added to `steps`.
  DraftSearch(const ScheduleOptions& options, int64_t memory_bytes,
              PassContext& context, int* steps)
      : options_(options),
        memory_bytes_(memory_bytes),
        context_(context),
        steps_(*steps) {}

  OrderSearchOptions Steps(int steps) const {
    return {.steps = steps, .memory_bytes = memory_bytes_};
  }
  // Searches on for so many steps.
  void Improve(Draft* draft, int steps);
  // All of the above, in about as many steps as the options say: what it makes
  // of the drafts is added to them.
  absl::Status LookAgain(std::vector<Draft>* drafts);

 private:
  bool MaySpare() const;
  absl::Status MergeTiles(std::vector<Draft>* drafts, int steps);
  void TryLayouts(std::vector<Draft>* drafts, int steps);
  void TryCopies(std::vector<Draft>* drafts, int steps);
  void TrySparing(std::vector<Draft>* drafts, int steps);

  const ScheduleOptions& options_;
  int64_t memory_bytes_;
  PassContext& context_;
  int& steps_;
};

}  // namespace asyra
