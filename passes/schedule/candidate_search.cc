#include "passes/schedule/candidate_search.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "ir/support/status.h"
#include "passes/schedule/sm_margin.h"
#include "simulator/library_memory.h"

namespace asyra {
namespace {

// Steps for a first look at a candidate.
constexpr int kFirstLook = 24;
// How many candidates are tried with tiles merged.
constexpr size_t kBucketed = 2;
// Of the search, for each way of merging tiles that is tried.
constexpr int kStepsOfWindow = 50;
// How many candidates are tried on other streams, and how many such are kept.
constexpr size_t kLaidOut = 3, kLayoutsKept = 2;
// How many are tried with copy engines, and with an SM margin.
constexpr size_t kOnCopyEngines = 2, kWithMargin = 2;
// How many are tried with collectives joined, and how much each is searched:
// one in so many steps, besides.
constexpr size_t kJoined = 2;
constexpr int kShareOfJoins = 20;

}  // namespace

void SortCandidates(std::vector<Candidate>* candidates) {
  std::stable_sort(candidates->begin(), candidates->end(),
                   [](const Candidate& a, const Candidate& b) {
                     return a.found.BetterThan(b.found);
                   });
}

int64_t CandidateSearch::ValueBytesOf(const Candidate& candidate) const {
  return ValueBytes(capacity_bytes_, candidate.program,
                    context_.costs->machine());
}

bool CandidateSearch::MayLeaveMargin() const {
  return options_.sm_margin && context_.costs->machine().gpu.gemm_persistent;
}

absl::StatusOr<Candidate> CandidateSearch::Make(const Program& program,
                                                const CandidatePlan& plan) {
  context_.Begin("building " + plan.name);
  int steps = Searching() ? kFirstLook : options_.search_steps;
  ASYRA_ASSIGN_OR_RETURN(
      Candidate candidate,
      MakeCandidate(program, plan, Steps(steps), context_, options_.manager));
  steps_ += candidate.found.steps;
  return candidate;
}

void CandidateSearch::Improve(Candidate* candidate, int steps) {
  context_.Begin("searching " + candidate->plan.name);
  int before = candidate->found.steps;
  ImproveCandidate(candidate, Steps(steps), *context_.costs);
  steps_ += candidate->found.steps - before;
}

absl::StatusOr<std::vector<Candidate>> CandidateSearch::TiledCandidates(
    std::vector<ScheduleChoice>* uncut) {
  std::vector<Candidate> candidates;
  for (int tiles = 2; tiles <= std::max(kMostTiles, options_.tiles); ++tiles) {
    if (options_.tiles != 0 && options_.tiles != tiles) continue;
    absl::StatusOr<Candidate> candidate = Tiled(tiles);
    if (candidate.ok()) {
      candidates.push_back(*std::move(candidate));
    } else if (options_.tiles == tiles) {
      return candidate.status();
    } else {
      uncut->push_back({fmt::format("{} tiles", tiles), 0, 0,
                        std::string(MessageOf(candidate.status()))});
    }
  }
  return candidates;
}

// Along the dimension asked for, or the first that cuts.
absl::StatusOr<Candidate> CandidateSearch::Tiled(int tiles) {
  absl::Status status;
  for (const std::string& dim : TileDimsToTry(options_)) {
    CandidatePlan plan{.name = fmt::format("{} tiles along the {}", tiles, dim),
                       .tiles = tiles,
                       .dim = dim,
                       .scheduler = Searching() ? "" : options_.scheduler};
    absl::StatusOr<Candidate> candidate = Make(program_, plan);
    if (candidate.ok()) return candidate;
    // Why the batch does not cut says more than why the sequence does not.
    if (status.ok()) status = candidate.status();
  }
  return status;
}

absl::StatusOr<std::vector<Candidate>> CandidateSearch::Round(
    int steps, std::vector<Candidate>* tiled) {
  size_t searched = tiled->size() + kBucketed + kLayoutsKept + kOnCopyEngines +
                    (MayLeaveMargin() ? kWithMargin : 0);
  int each = steps / static_cast<int>(searched);
  for (Candidate& candidate : *tiled) Improve(&candidate, each);
  std::vector<Candidate> candidates = *tiled;
  ASYRA_RETURN_IF_ERROR(MergeTiles(&candidates, steps / kStepsOfWindow, each));
  TryLayouts(&candidates, each);
  if (options_.copies) TryCopyEngines(&candidates, each);
  if (MayLeaveMargin()) TrySmMargins(&candidates, each);
  ASYRA_RETURN_IF_ERROR(TryJoins(&candidates, steps / kShareOfJoins));
  return candidates;
}

absl::Status CandidateSearch::MergeTiles(std::vector<Candidate>* candidates,
                                         int windows, int steps) {
  SortCandidates(candidates);
  size_t count = std::min(candidates->size(), kBucketed);
  for (size_t d = 0; options_.bucket && d < count; ++d) {
    Candidate candidate = (*candidates)[d];
    context_.Begin("bucketing " + candidate.plan.name);
    ASYRA_ASSIGN_OR_RETURN(
        bool merged, BucketTilesOf(&candidate,
                                   {.memory_bytes = ValueBytesOf(candidate),
                                    .windows = windows},
                                   *context_.costs));
    if (merged) {
      steps_ += candidate.found.steps;
      Improve(&candidate, steps);
      candidates->push_back(std::move(candidate));
    } else {
      (*candidates)[d].remarks = std::move(candidate.remarks);
    }
  }
  return absl::OkStatus();
}

void CandidateSearch::TryLayouts(std::vector<Candidate>* candidates,
                                 int steps) {
  SortCandidates(candidates);
  std::vector<Candidate> laid;
  for (size_t d = 0; d < std::min(candidates->size(), kLaidOut); ++d) {
    const Candidate& candidate = (*candidates)[d];
    context_.Begin("laying out " + candidate.plan.name);
    for (const StreamLayout& layout : OtherLayouts()) {
      laid.push_back(
          OnStreams(candidate, layout, Steps(kFirstLook), *context_.costs));
      steps_ += laid.back().found.steps;
    }
  }
  SortCandidates(&laid);
  for (size_t d = 0; d < std::min(laid.size(), kLayoutsKept); ++d) {
    Improve(&laid[d], steps);
    candidates->push_back(std::move(laid[d]));
  }
}

void CandidateSearch::TryCopyEngines(std::vector<Candidate>* candidates,
                                     int steps) {
  SortCandidates(candidates);
  size_t count = std::min(candidates->size(), kOnCopyEngines);
  for (size_t d = 0; d < count; ++d) {
    Candidate candidate = (*candidates)[d];
    context_.Begin("copy engines for " + candidate.plan.name);
    if (!UseCopyEngines(&candidate, Steps(kFirstLook), *context_.costs))
      continue;
    Improve(&candidate, steps);
    candidates->push_back(std::move(candidate));
  }
}

// A look at the best of each way to cut into tiles, with copies and without:
// what waits most for SMs gains most by them. The search goes on
// with the best of what comes out.
void CandidateSearch::TrySmMargins(std::vector<Candidate>* candidates,
                                   int steps) {
  SortCandidates(candidates);
  std::set<std::tuple<int, std::string, bool>> seen;
  std::vector<Candidate> with_margin;
  for (const Candidate& candidate : *candidates) {
    const CandidatePlan& plan = candidate.plan;
    if (!seen.emplace(plan.tiles, plan.dim, plan.copies).second) continue;
    for (int margin : kSmMargins) {
      context_.Begin(fmt::format("SM margin {} in {}", margin, plan.name));
      Candidate trial = candidate;
      if (UseSmMargin(&trial, margin, Steps(kFirstLook), *context_.costs)) {
        with_margin.push_back(std::move(trial));
      }
    }
  }
  SortCandidates(&with_margin);
  for (size_t d = 0; d < std::min(with_margin.size(), kWithMargin); ++d) {
    Improve(&with_margin[d], steps);
    candidates->push_back(std::move(with_margin[d]));
  }
}

// The best candidates, and the one without tiles, with collectives joined,
// beside those where they are not: what pays in one order need not in another.
absl::Status CandidateSearch::TryJoins(std::vector<Candidate>* candidates,
                                       int steps) {
  if (!options_.bucket || !options_.join) return absl::OkStatus();
  SortCandidates(candidates);
  std::vector<Candidate> joined(
      candidates->begin(),
      candidates->begin() +
          static_cast<std::ptrdiff_t>(std::min(candidates->size(), kJoined)));
  if (options_.tiles <= 1) {
    ASYRA_ASSIGN_OR_RETURN(Candidate candidate,
                           Make(program_, {.name = "1 tile"}));
    joined.push_back(std::move(candidate));
  }
  for (size_t d = 0; d < joined.size(); ++d) {
    Candidate& candidate = joined[d];
    context_.Begin("joining collectives of " + candidate.plan.name);
    ASYRA_ASSIGN_OR_RETURN(
        bool pays,
        JoinCollectivesOf(&candidate, {.memory_bytes = ValueBytesOf(candidate)},
                          *context_.costs));
    if (!pays) {
      bool tiled = candidate.plan.tiles > 1;
      if (tiled) (*candidates)[d].remarks = std::move(candidate.remarks);
      continue;
    }
    steps_ += candidate.found.steps;
    Improve(&candidate, steps);
    candidates->push_back(std::move(candidate));
  }
  return absl::OkStatus();
}

}  // namespace asyra
