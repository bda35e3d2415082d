#include "passes/search/candidate_search.h"

#include <algorithm>
#include <set>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "passes/train/step_phase.h"
#include "simulator/replay/bound.h"
#include "simulator/replay/library_memory.h"
#include "simulator/replay/replay.h"

namespace asyra {
namespace {

// Steps for a first look at a candidate.
constexpr int kFirstLook = 24;
// Steps for one of a longer program, whose best rule the search has found.
constexpr int kLookAtWhole = 8;
// The number of candidates that are tried with tiles merged.
constexpr size_t kBucketed = 2;
// Steps of the search for each set of merged tiles.
constexpr int kStepsOfWindow = 100;
// The most by which a candidate without tiles may be slower than tiled ones at
// first for decisions to be tried on it: what it cannot hide, they do not hide
// either.
constexpr double kUntiledMargin = 1.05;
// The number of candidates that are tried with collectives joined, and the
// share of steps that each gets in addition: one in so many.
constexpr size_t kJoined = 2;
constexpr int kShareOfJoins = 20;

// Returns the runs of these passes in a plan, as text.
std::string RunsOf(absl::Span<const std::string_view> passes,
                   const CandidatePlan& plan) {
  Pipeline runs;
  for (const Pipeline* pipeline : {&plan.structure, &plan.attributes}) {
    for (const PassRun& run : *pipeline) {
      if (absl::c_linear_search(passes, run.pass->name)) runs.push_back(run);
    }
  }
  return ToString(runs);
}

// Returns the sorted candidates on which a decision is tried.
std::vector<const Candidate*> BasesOf(
    const Decision& decision, const std::vector<Candidate>& candidates) {
  std::vector<const Candidate*> bases;
  std::set<std::string> seen;
  for (const Candidate& candidate : candidates) {
    bool taken =
        decision.tried > 0
            ? bases.size() < decision.tried
            : seen.insert(RunsOf(decision.best_of_each, candidate.plan)).second;
    if (taken) bases.push_back(&candidate);
  }
  return bases;
}

// Returns whether a candidate can become faster by this share where nothing is
// waited for: then the busiest stream or link takes all the time.
bool CanGain(const Candidate& candidate, double share, const CostModel& costs) {
  CostedProgram costed(candidate.program, costs);
  LowerBounds bounds = LowerBoundsOf(candidate.program, costed.op_costs(),
                                     costed.dependencies(), true);
  return bounds.load_us < (1 - share) * candidate.found.makespan_us;
}

}  // namespace

void SortCandidates(std::vector<Candidate>* candidates) {
  std::stable_sort(
      candidates->begin(), candidates->end(),
      [](const Candidate& a, const Candidate& b) { return a.BetterThan(b); });
}

int64_t CandidateSearch::ValueBytesOf(const Candidate& candidate) const {
  return ValueBytes(CapacityLeft(capacity_bytes_, candidate), candidate.program,
                    context_.costs->machine());
}

bool CandidateSearch::IsOpen(const Decision& decision) const {
  bool opened = absl::c_linear_search(options_.opened, decision.pass);
  return !absl::c_linear_search(options_.closed, decision.pass) &&
         (decision.when == Decision::kAlways ||
          opened == (decision.when == Decision::kOpened)) &&
         (decision.is_for == nullptr ||
          decision.is_for(program_, context_.costs->machine()));
}

absl::StatusOr<Candidate> CandidateSearch::Make(const Program& program,
                                                const CandidatePlan& plan) {
  Tell("building " + plan.name);
  bool is_longer = program.ops.size() > program_.ops.size();
  int steps = !Searching() ? options_.search_steps
              : is_longer  ? kLookAtWhole
                           : kFirstLook;
  ASYRA_ASSIGN_OR_RETURN(
      Candidate candidate,
      MakeCandidate(program, plan, Steps(steps), context_, options_.manager,
                    &program == &program_ ? cut_bytes_ : 0,
                    &program == &program_ ? nullptr : &passed_));
  steps_ += candidate.found.steps;
  Count(candidate, &program != &program_);
  return candidate;
}

void CandidateSearch::Tell(const std::string& what) const {
  if (!context_.progress) return;
  std::string text;
  if (tally_->made > 0) {
    text = fmt::format("{} of about {} candidates, ", tally_->made,
                       std::max(tally_->expected, tally_->made + 1));
  }
  if (tally_->best_us > 0) {
    text += fmt::format("best {}, ", TimeText(tally_->best_us));
  }
  if (round_ > 0) {
    text += fmt::format("round {} of {}, ", round_,
                        SearchRounds(options_.search_steps).size());
  }
  context_.Begin(text + what);
}

void CandidateSearch::Count(const Candidate& candidate, bool whole) {
  CountOne();
  double us = candidate.found.makespan_us;
  bool better = tally_->best_us == 0 || us < tally_->best_us;
  if (whole && candidate.found.fits && better) tally_->best_us = us;
}

size_t CandidateSearch::CandidatesOfRound(const std::vector<Candidate>& first,
                                          bool merges) const {
  size_t count = 0;
  for (const Decision& decision : Decisions()) {
    if (!IsOpen(decision) || (decision.is_extra && !merges)) continue;
    size_t bases = BasesOf(decision, first).size();
    if (decision.is_extra && options_.tiles <= 1) ++bases;  // without tiles
    count += bases * decision.settings.size();
  }
  bool joins = merges && options_.bucket && options_.join;
  if (merges && options_.bucket) count += std::min(first.size(), kBucketed);
  if (joins) count += kJoined;
  return count;
}

void CandidateSearch::ExpectRounds(const std::vector<Candidate>& first) {
  size_t rounds = SearchRounds(options_.search_steps).size();
  size_t later = rounds > round_ ? rounds - round_ : 0;
  Expect(made_ + (1 + later) * CandidatesOfRound(first, /*merges=*/true));
}

void CandidateSearch::Improve(Candidate* candidate, int steps) {
  Tell("searching " + candidate->plan.name);
  int before = candidate->found.steps;
  ImproveCandidate(candidate, Steps(steps), *context_.costs);
  steps_ += candidate->found.steps - before;
}

absl::StatusOr<std::vector<Candidate>> CandidateSearch::FirstCandidates(
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
  if (options_.tiles <= 1 && Searching() && IsTrainingStep(program_)) {
    ASYRA_ASSIGN_OR_RETURN(Candidate untiled, Untiled());
    bool is_close = absl::c_all_of(candidates, [&](const Candidate& tiled) {
      return untiled.found.makespan_us <
             kUntiledMargin * tiled.found.makespan_us;
    });
    if (is_close) candidates.insert(candidates.begin(), std::move(untiled));
  }
  return candidates;
}

// Tiles along the requested dimension, or the first that can be tiled.
absl::StatusOr<Candidate> CandidateSearch::Tiled(int tiles) {
  absl::Status status;
  for (const std::string& dim : TileDimsToTry(options_)) {
    CandidatePlan plan =
        PlanOf(fmt::format("{} tiles along the {}", tiles, dim),
               {.tiles = tiles, .dim = dim, .taken = options_.taken});
    if (!Searching()) plan.scheduler = options_.scheduler;
    absl::StatusOr<Candidate> candidate = Make(program_, plan);
    if (candidate.ok()) return candidate;
    // The error for the batch says more than that for the sequence.
    if (status.ok()) status = candidate.status();
  }
  return status;
}

absl::StatusOr<Merit> CandidateSearch::FirstLook() {
  std::vector<ScheduleChoice> uncut;
  ASYRA_ASSIGN_OR_RETURN(std::vector<Candidate> candidates,
                         FirstCandidates(&uncut));
  Expect(made_ + CandidatesOfRound(candidates, /*merges=*/false));
  for (Decision decision : Decisions()) {
    if (!IsOpen(decision) || decision.is_extra) continue;
    decision.tried = decision.kept = 1;
    ASYRA_RETURN_IF_ERROR(Try(decision, &candidates, kFirstLook));
  }
  if (options_.tiles <= 1) {
    ASYRA_ASSIGN_OR_RETURN(Candidate untiled, Untiled());
    candidates.push_back(std::move(untiled));
  }
  SortCandidates(&candidates);
  return candidates.front().found;
}

absl::StatusOr<std::vector<Candidate>> CandidateSearch::Round(
    int steps, std::vector<Candidate>* first) {
  ++round_;
  ExpectRounds(*first);
  size_t searched = first->size() + kBucketed;
  for (const Decision& decision : Decisions()) {
    if (IsOpen(decision) && !decision.is_extra) searched += decision.kept;
  }
  int each = steps / static_cast<int>(searched);
  for (Candidate& candidate : *first) Improve(&candidate, each);
  std::vector<Candidate> candidates = *first;
  ASYRA_RETURN_IF_ERROR(MergeTiles(&candidates, steps / kStepsOfWindow, each));
  for (const Decision& decision : Decisions()) {
    if (!IsOpen(decision) || decision.is_extra) continue;
    ASYRA_RETURN_IF_ERROR(Try(decision, &candidates, each));
  }
  ASYRA_RETURN_IF_ERROR(TryJoins(&candidates, steps / kShareOfJoins));
  for (const Decision& decision : Decisions()) {
    if (!IsOpen(decision) || !decision.is_extra) continue;
    ASYRA_RETURN_IF_ERROR(
        TryExtra(decision, &candidates, steps / kShareOfJoins));
  }
  return candidates;
}

// Rounds improve the order of a tiled candidate and not its ops.
TileBucketing* CandidateSearch::BucketingOf(const Candidate& tiled) {
  std::unique_ptr<TileBucketing>& bucketing = bucketings_[tiled.plan.name];
  if (bucketing == nullptr) {
    bucketing = std::make_unique<TileBucketing>(
        tiled.program, *context_.costs,
        BucketOptions{.memory_bytes = ValueBytesOf(tiled), .join = false});
  }
  return bucketing.get();
}

absl::Status CandidateSearch::MergeTiles(std::vector<Candidate>* candidates,
                                         int windows, int steps) {
  SortCandidates(candidates);
  size_t count = std::min(candidates->size(), kBucketed);
  for (size_t d = 0; options_.bucket && d < count; ++d) {
    Candidate candidate = (*candidates)[d];
    Tell("bucketing " + candidate.plan.name);
    ASYRA_ASSIGN_OR_RETURN(
        bool merged,
        BucketTilesOf(&candidate, BucketingOf(candidate), windows));
    CountOne();
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

// Runs a short search of every setting on every base; the full search continues
// with the best.
absl::Status CandidateSearch::Try(const Decision& decision,
                                  std::vector<Candidate>* candidates,
                                  int steps) {
  SortCandidates(candidates);
  std::vector<Candidate> tried;
  for (const Candidate* base : BasesOf(decision, *candidates)) {
    for (const Setting& setting : decision.settings) {
      Tell(base->plan.name + setting.name);
      Candidate trial = *base;
      ASYRA_ASSIGN_OR_RETURN(bool changed, Decide(&trial, decision, setting,
                                                  Steps(kFirstLook), context_));
      CountOne();
      if (!changed) continue;
      steps_ += trial.found.steps - base->found.steps;
      tried.push_back(std::move(trial));
    }
  }
  SortCandidates(&tried);
  for (size_t i = 0; i < std::min(tried.size(), decision.kept); ++i) {
    Improve(&tried[i], steps);
    candidates->push_back(std::move(tried[i]));
  }
  return absl::OkStatus();
}

// Tries a decision on the candidate without tiles and on the best, in addition
// to what there is.
absl::Status CandidateSearch::TryExtra(const Decision& decision,
                                       std::vector<Candidate>* candidates,
                                       int steps) {
  std::vector<Candidate> bases;
  if (options_.tiles <= 1) {
    ASYRA_ASSIGN_OR_RETURN(Candidate untiled, Untiled());
    bases.push_back(std::move(untiled));
  }
  const Candidate* best = bases.empty() ? nullptr : &bases[0];
  for (const Candidate& candidate : *candidates) {
    if (best == nullptr || candidate.BetterThan(*best)) best = &candidate;
  }
  if (best != nullptr && decision.least_gain > 0 &&
      !CanGain(*best, decision.least_gain, *context_.costs)) {
    return absl::OkStatus();
  }
  if (!bases.empty()) {
    ASYRA_RETURN_IF_ERROR(AddTried(decision, &bases, steps, candidates));
  }
  SortCandidates(candidates);
  size_t count = std::min(candidates->size(), decision.tried);
  bases.assign(candidates->begin(),
               candidates->begin() + static_cast<std::ptrdiff_t>(count));
  return AddTried(decision, &bases, steps, candidates);
}

absl::Status CandidateSearch::AddTried(const Decision& decision,
                                       std::vector<Candidate>* bases, int steps,
                                       std::vector<Candidate>* candidates) {
  size_t before = bases->size();
  ASYRA_RETURN_IF_ERROR(Try(decision, bases, steps));
  for (size_t i = before; i < bases->size(); ++i) {
    (*bases)[i].plan.extra = true;
    candidates->push_back(std::move((*bases)[i]));
  }
  return absl::OkStatus();
}

// The best candidates, and the one without tiles, with collectives joined, in
// addition to those without joins: whether a join pays depends on the order.
absl::Status CandidateSearch::TryJoins(std::vector<Candidate>* candidates,
                                       int steps) {
  if (!options_.bucket || !options_.join) return absl::OkStatus();
  SortCandidates(candidates);
  std::vector<Candidate> joined(
      candidates->begin(),
      candidates->begin() +
          static_cast<std::ptrdiff_t>(std::min(candidates->size(), kJoined)));
  for (size_t d = 0; d < joined.size(); ++d) {
    Candidate& candidate = joined[d];
    ASYRA_ASSIGN_OR_RETURN(bool pays, Join(&candidate));
    if (!pays) {
      bool tiled = candidate.plan.tiles > 1;
      if (tiled) (*candidates)[d].remarks = std::move(candidate.remarks);
      continue;
    }
    Improve(&candidate, steps);
    candidates->push_back(std::move(candidate));
  }
  if (options_.tiles > 1) return absl::OkStatus();
  ASYRA_ASSIGN_OR_RETURN(Candidate untiled, Untiled());
  ASYRA_ASSIGN_OR_RETURN(bool pays, JoinUntiled(&untiled));
  if (!pays) return absl::OkStatus();
  Improve(&untiled, steps);
  candidates->push_back(std::move(untiled));
  return absl::OkStatus();
}

absl::StatusOr<Candidate> CandidateSearch::Untiled() {
  if (!untiled_.has_value()) {
    CandidatePlan plan = PlanOf("1 tile", {.taken = options_.taken});
    ASYRA_ASSIGN_OR_RETURN(untiled_, Make(program_, plan));
  }
  return *untiled_;
}

// False, and the candidate unspecified but for its remarks, if it does not pay.
absl::StatusOr<bool> CandidateSearch::Join(Candidate* candidate) {
  Tell("joining collectives of " + candidate->plan.name);
  ASYRA_ASSIGN_OR_RETURN(
      bool pays,
      JoinCollectivesOf(candidate, {.memory_bytes = ValueBytesOf(*candidate)},
                        *context_.costs));
  CountOne();
  if (pays) steps_ += candidate->found.steps;
  return pays;
}

absl::StatusOr<bool> CandidateSearch::JoinUntiled(Candidate* candidate) {
  if (!untiled_joined_.has_value()) {
    ASYRA_ASSIGN_OR_RETURN(bool pays, Join(candidate));
    untiled_joined_.emplace(*candidate, pays);
  }
  *candidate = untiled_joined_->first;
  return untiled_joined_->second;
}

}  // namespace asyra
