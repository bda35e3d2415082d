// The candidates that Schedule has repeated on the whole program: which is
// best, which may be chosen, and why the others were not.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "passes/search/candidate.h"
#include "passes/search/schedule_options.h"
#include "passes/search/schedule_result.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/costed_program.h"

namespace asyra {

// A candidate with its results in the current order.
struct WholeCandidate {
  Candidate candidate;
  std::optional<bool> robust;
  bool considered = false;   // for the result
  int64_t device_bytes = 0;  // where these turned out to be too many

  bool fits() const { return candidate.found.fits && device_bytes == 0; }
  // Forgets the results when the order has changed.
  void Forget() {
    robust.reset();
    considered = false;
    device_bytes = 0;
  }
};

class WholeCandidates {
 public:
  // `capacity_bytes` of a device, 0: any number. All arguments outlive this.
  WholeCandidates(const Program& program, const ScheduleOptions& options,
                  int64_t capacity_bytes, const CostModel& costs)
      : program_(program),
        options_(options),
        capacity_bytes_(capacity_bytes),
        costs_(costs) {}

  // Adds a candidate; the first is the baseline.
  void Add(Candidate candidate) { all_.push_back({std::move(candidate)}); }
  WholeCandidate& operator[](int i) { return all_[i]; }
  std::vector<WholeCandidate>& all() { return all_; }

  // Returns the best by the search, whether or not it fits; null if there is
  // none. `joined`: also with joined collectives that displace no other
  // candidate.
  WholeCandidate* Best(bool joined);
  // Returns the best of those that may be chosen, or -1. `joined`: also with
  // joined collectives.
  int Fastest(bool joined);
  // Returns the candidates that may take the place of `chosen`, the best first.
  // The baseline is none of them.
  std::vector<int> Others(int chosen) const;

  // Returns the candidates that may be chosen and take least without gaps
  // between values, the smallest first.
  std::vector<int> Smallest(size_t most) const;

  // Returns the bytes of the device without gaps between values.
  int64_t LiveBytes(const WholeCandidate& whole) const;
  // Records that it needs so many bytes, gaps included, which the device has
  // not.
  void SetTooLarge(WholeCandidate* whole, int64_t device_bytes);

  // Returns whether all exceed the capacity by so much that no order of theirs
  // will fit, and nobody asks by how much.
  bool IsHopeless() const;
  // Returns the same for candidates of a shorter program.
  bool IsHopeless(const std::vector<Candidate>& shorter) const;
  // Returns the error that says how much is too much.
  absl::Status NothingFits() const;
  // Returns the report on each candidate; of those with one name, on the best.
  std::vector<ScheduleChoice> Choices(int chosen) const;

 private:
  // Returns whether the options allow it.
  bool Asked(const Candidate& candidate) const {
    return options_.tiles == 0 || candidate.plan.tiles == options_.tiles;
  }
  bool IsRobust(WholeCandidate* whole);
  void SortBest(std::vector<int>* ranked) const;
  bool IsFarOver(int64_t bytes) const;
  int64_t OtherBytes(const WholeCandidate& whole) const;
  int64_t DeviceBytes(const WholeCandidate& whole, int64_t live_bytes) const;
  std::string WhyNot(const WholeCandidate& whole, const Candidate& best) const;

  const Program& program_;
  const ScheduleOptions& options_;
  const int64_t capacity_bytes_;
  const CostModel& costs_;
  std::vector<WholeCandidate> all_;
  std::optional<CostedProgram> costed_;  // the program, once it is needed
  int64_t least_over_ = 0;               // of a device, with all gaps
};

}  // namespace asyra
