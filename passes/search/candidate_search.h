// Searches candidates: a better order for each, and variants of the best with
// tiles merged, other streams, copy engines, an SM margin and joined
// collectives.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "passes/search/candidate.h"
#include "passes/search/schedule_options.h"
#include "passes/search/schedule_result.h"

namespace asyra {

// Sorts candidates, the fastest first.
void SortCandidates(std::vector<Candidate>* candidates);

class CandidateSearch {
 public:
  // Searches for the local `program`, of which layers with values of
  // `cut_bytes` were cut (shorten.h). `capacity_bytes` of a device, 0: no
  // limit; all other arguments outlive this. `steps` counts the orders that are
  // simulated.
  CandidateSearch(const Program& program, int64_t cut_bytes,
                  const ScheduleOptions& options, int64_t capacity_bytes,
                  PassContext& context, int* steps)
      : program_(program),
        cut_bytes_(cut_bytes),
        options_(options),
        device_bytes_(capacity_bytes),
        capacity_bytes_(capacity_bytes),
        context_(context),
        tally_(context.tally != nullptr ? context.tally
                                        : std::make_shared<SearchTally>()),
        steps_(*steps) {}
  ~CandidateSearch() { Expect(made_); }
  CandidateSearch(const CandidateSearch&) = delete;
  CandidateSearch& operator=(const CandidateSearch&) = delete;

  // Returns the candidates with which the search begins: one for each number of
  // tiles that the options allow, two or more, and one without tiles for a
  // training step, whose weight gradients and gathers of parameters hide
  // collectives without any. Numbers that are not possible are added to
  // `uncut`, or are an error if the options ask for them.
  absl::StatusOr<std::vector<Candidate>> FirstCandidates(
      std::vector<ScheduleChoice>* uncut);

  // Returns the best of a short search of each candidate without tiles and
  // tiled, and of the best of them with each decision taken.
  absl::StatusOr<Merit> FirstLook();

  // Continues the search of `first` for about so many steps in all, and returns
  // them and the variants of the best of them, also with tiles merged and
  // collectives joined.
  absl::StatusOr<std::vector<Candidate>> Round(int steps,
                                               std::vector<Candidate>* first);

  // Runs a short search of the candidate that `plan` makes of a program, this
  // or another one, always the same.
  absl::StatusOr<Candidate> Make(const Program& program,
                                 const CandidatePlan& plan);
  // Continues the search for so many steps.
  void Improve(Candidate* candidate, int steps);

  // Leaves so much of the capacity from now on, for gaps between values, which
  // the search does not model.
  void Reserve(int64_t bytes) {
    capacity_bytes_ = device_bytes_ - bytes;
    bucketings_.clear();
    untiled_.reset();
    untiled_joined_.reset();
  }

 private:
  bool Searching() const { return options_.scheduler == "auto"; }
  // Says what it does next, and how far the search is.
  void Tell(const std::string& what) const;
  // Returns about how many candidates a round makes from these.
  size_t CandidatesOfRound(const std::vector<Candidate>& first,
                           bool merges) const;
  // Tells how many candidates are expected, at the beginning of a round.
  void ExpectRounds(const std::vector<Candidate>& first);
  // Tells how many candidates are expected in all.
  void Expect(size_t candidates) {
    tally_->expected += candidates - expected_;
    expected_ = candidates;
  }
  // Counts a candidate that was made, or refused.
  void CountOne() {
    ++made_;
    ++tally_->made;
    if (made_ > expected_) Expect(made_);
  }
  // Counts a candidate; `whole`: of the program with all layers.
  void Count(const Candidate& candidate, bool whole);
  // Returns whether options and machine leave this decision to the search.
  bool IsOpen(const Decision& decision) const;
  OrderSearchOptions Steps(int steps) const {
    return {.steps = steps, .memory_bytes = capacity_bytes_};
  }
  // Returns the memory for the values of `candidate`, as BucketOptions has it.
  int64_t ValueBytesOf(const Candidate& candidate) const;
  absl::StatusOr<Candidate> Tiled(int tiles);
  TileBucketing* BucketingOf(const Candidate& tiled);
  absl::Status MergeTiles(std::vector<Candidate>* candidates, int windows,
                          int steps);
  absl::Status Try(const Decision& decision, std::vector<Candidate>* candidates,
                   int steps);
  absl::Status TryExtra(const Decision& decision,
                        std::vector<Candidate>* candidates, int steps);
  // Tries the decision on `bases`; adds the results to `candidates`.
  absl::Status AddTried(const Decision& decision, std::vector<Candidate>* bases,
                        int steps, std::vector<Candidate>* candidates);
  absl::Status TryJoins(std::vector<Candidate>* candidates, int steps);
  absl::StatusOr<Candidate> Untiled();
  absl::StatusOr<bool> Join(Candidate* candidate);
  absl::StatusOr<bool> JoinUntiled(Candidate* candidate);

  const Program& program_;
  const int64_t cut_bytes_;
  const ScheduleOptions& options_;
  const int64_t device_bytes_;
  int64_t capacity_bytes_;  // of these
  PassContext& context_;
  const std::shared_ptr<SearchTally> tally_;
  int& steps_;
  // The bucketings of the tiled candidates, by name.
  std::map<std::string, std::unique_ptr<TileBucketing>> bucketings_;
  // The candidate without tiles, and with collectives joined, if that pays:
  // the same in all rounds.
  std::optional<Candidate> untiled_;
  std::optional<std::pair<Candidate, bool>> untiled_joined_;
  size_t round_ = 0;     // of those of the search, from 1
  size_t made_ = 0;      // candidates
  size_t expected_ = 0;  // of them in all, about
  PassCache passed_;     // of the other program that Make gets
};

}  // namespace asyra
