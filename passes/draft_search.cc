#include "passes/draft_search.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "ir/support/status.h"
#include "passes/spare_processors.h"

namespace asyra {
namespace {

// How many drafts are tried with tiles merged.
constexpr size_t kBucketed = 2;
// Of the search, for each way of merging tiles that is tried.
constexpr int kStepsOfWindow = 50;
// How many drafts are tried on other streams, and how many such are kept.
constexpr size_t kLaidOut = 3, kLayoutsKept = 2;
// How many are tried with copy engines, and with products that spare.
constexpr size_t kCopied = 2, kSparing = 2;

}  // namespace

void SortDrafts(std::vector<Draft>* drafts) {
  std::stable_sort(drafts->begin(), drafts->end(),
                   [](const Draft& a, const Draft& b) {
                     return a.found.BetterThan(b.found);
                   });
}

bool DraftSearch::MaySpare() const {
  return options_.spare && context_.costs->machine().gpu.gemm_stays;
}

void DraftSearch::Improve(Draft* draft, int steps) {
  context_.Begin("searching " + draft->plan.name);
  int before = draft->found.steps;
  ImproveDraft(draft, Steps(steps), *context_.costs);
  steps_ += draft->found.steps - before;
}

absl::Status DraftSearch::LookAgain(std::vector<Draft>* drafts) {
  size_t searched = drafts->size() + kBucketed + kLayoutsKept + kCopied +
                    (MaySpare() ? kSparing : 0);
  int steps = options_.search_steps / static_cast<int>(searched);
  for (Draft& draft : *drafts) Improve(&draft, steps);
  ASYRA_RETURN_IF_ERROR(MergeTiles(drafts, steps));
  TryLayouts(drafts, steps);
  if (options_.copies) TryCopies(drafts, steps);
  if (MaySpare()) TrySparing(drafts, steps);
  return absl::OkStatus();
}

absl::Status DraftSearch::MergeTiles(std::vector<Draft>* drafts, int steps) {
  SortDrafts(drafts);
  size_t count = std::min(drafts->size(), kBucketed);
  for (size_t d = 0; options_.bucket && d < count; ++d) {
    Draft draft = (*drafts)[d];
    context_.Begin("bucketing " + draft.plan.name);
    ASYRA_ASSIGN_OR_RETURN(
        bool merged,
        BucketDraft(&draft,
                    {.memory_bytes = memory_bytes_,
                     .windows = options_.search_steps / kStepsOfWindow},
                    *context_.costs));
    if (merged) {
      steps_ += draft.found.steps;
      Improve(&draft, steps);
      drafts->push_back(std::move(draft));
    } else {
      (*drafts)[d].remarks = std::move(draft.remarks);
    }
  }
  return absl::OkStatus();
}

void DraftSearch::TryLayouts(std::vector<Draft>* drafts, int steps) {
  SortDrafts(drafts);
  std::vector<Draft> laid;
  for (size_t d = 0; d < std::min(drafts->size(), kLaidOut); ++d) {
    const Draft& draft = (*drafts)[d];
    context_.Begin("laying out " + draft.plan.name);
    for (const StreamLayout& layout : OtherLayouts()) {
      laid.push_back(
          OnStreams(draft, layout, Steps(kFirstLook), *context_.costs));
      steps_ += laid.back().found.steps;
    }
  }
  SortDrafts(&laid);
  for (size_t d = 0; d < std::min(laid.size(), kLayoutsKept); ++d) {
    Improve(&laid[d], steps);
    drafts->push_back(std::move(laid[d]));
  }
}

void DraftSearch::TryCopies(std::vector<Draft>* drafts, int steps) {
  SortDrafts(drafts);
  size_t count = std::min(drafts->size(), kCopied);
  for (size_t d = 0; d < count; ++d) {
    Draft draft = (*drafts)[d];
    context_.Begin("copy engines for " + draft.plan.name);
    if (!CopyDraft(&draft, Steps(kFirstLook), *context_.costs)) continue;
    Improve(&draft, steps);
    drafts->push_back(std::move(draft));
  }
}

// A look at the best of each way to cut into tiles, with copies and without:
// what waits most without processors gains most by them. The search goes on
// with the best of what comes out.
void DraftSearch::TrySparing(std::vector<Draft>* drafts, int steps) {
  SortDrafts(drafts);
  std::set<std::tuple<int, std::string, bool>> seen;
  std::vector<Draft> sparing;
  for (const Draft& draft : *drafts) {
    const DraftPlan& plan = draft.plan;
    if (!seen.emplace(plan.tiles, plan.dim, plan.copies).second) continue;
    for (int processors : kSpared) {
      context_.Begin(
          fmt::format("sparing {} processors in {}", processors, plan.name));
      Draft trial = draft;
      if (SpareDraft(&trial, processors, Steps(kFirstLook), *context_.costs)) {
        sparing.push_back(std::move(trial));
      }
    }
  }
  SortDrafts(&sparing);
  for (size_t d = 0; d < std::min(sparing.size(), kSparing); ++d) {
    Improve(&sparing[d], steps);
    drafts->push_back(std::move(sparing[d]));
  }
}

}  // namespace asyra
