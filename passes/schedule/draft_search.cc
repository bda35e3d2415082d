#include "passes/schedule/draft_search.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "ir/support/status.h"
#include "passes/schedule/sm_margin.h"
#include "simulator/library_memory.h"

namespace asyra {
namespace {

// Steps for a first look at a draft.
constexpr int kFirstLook = 24;
// How many drafts are tried with tiles merged.
constexpr size_t kBucketed = 2;
// Of the search, for each way of merging tiles that is tried.
constexpr int kStepsOfWindow = 50;
// How many drafts are tried on other streams, and how many such are kept.
constexpr size_t kLaidOut = 3, kLayoutsKept = 2;
// How many are tried with copy engines, and with an SM margin.
constexpr size_t kCopied = 2, kWithMargin = 2;
// How many are tried with collectives joined, and how much each is searched:
// one in so many steps, besides.
constexpr size_t kJoined = 2;
constexpr int kShareOfJoins = 20;

}  // namespace

void SortDrafts(std::vector<Draft>* drafts) {
  std::stable_sort(drafts->begin(), drafts->end(),
                   [](const Draft& a, const Draft& b) {
                     return a.found.BetterThan(b.found);
                   });
}

int64_t DraftSearch::ValueBytesOf(const Draft& draft) const {
  return ValueBytes(capacity_bytes_, draft.program, context_.costs->machine());
}

bool DraftSearch::MayLeaveMargin() const {
  return options_.sm_margin && context_.costs->machine().gpu.gemm_persistent;
}

absl::StatusOr<Draft> DraftSearch::Make(const Program& program,
                                        const DraftPlan& plan) {
  context_.Begin("drafting " + plan.name);
  int steps = Searching() ? kFirstLook : options_.search_steps;
  ASYRA_ASSIGN_OR_RETURN(Draft draft, MakeDraft(program, plan, Steps(steps),
                                                context_, options_.manager));
  steps_ += draft.found.steps;
  return draft;
}

void DraftSearch::Improve(Draft* draft, int steps) {
  context_.Begin("searching " + draft->plan.name);
  int before = draft->found.steps;
  ImproveDraft(draft, Steps(steps), *context_.costs);
  steps_ += draft->found.steps - before;
}

absl::StatusOr<std::vector<Draft>> DraftSearch::TiledDrafts(
    std::vector<ScheduleChoice>* uncut) {
  std::vector<Draft> drafts;
  for (int tiles = 2; tiles <= std::max(kMostTiles, options_.tiles); ++tiles) {
    if (options_.tiles != 0 && options_.tiles != tiles) continue;
    absl::StatusOr<Draft> draft = Tiled(tiles);
    if (draft.ok()) {
      drafts.push_back(*std::move(draft));
    } else if (options_.tiles == tiles) {
      return draft.status();
    } else {
      uncut->push_back({fmt::format("{} tiles", tiles), 0, 0,
                        std::string(MessageOf(draft.status()))});
    }
  }
  return drafts;
}

// Along the dimension asked for, or the first that cuts.
absl::StatusOr<Draft> DraftSearch::Tiled(int tiles) {
  absl::Status status;
  for (const std::string& dim : TileDimsToTry(options_)) {
    DraftPlan plan{.name = fmt::format("{} tiles along the {}", tiles, dim),
                   .tiles = tiles,
                   .dim = dim,
                   .scheduler = Searching() ? "" : options_.scheduler};
    absl::StatusOr<Draft> draft = Make(program_, plan);
    if (draft.ok()) return draft;
    // Why the batch does not cut says more than why the sequence does not.
    if (status.ok()) status = draft.status();
  }
  return status;
}

absl::StatusOr<std::vector<Draft>> DraftSearch::Round(
    int steps, std::vector<Draft>* tiled) {
  size_t searched = tiled->size() + kBucketed + kLayoutsKept + kCopied +
                    (MayLeaveMargin() ? kWithMargin : 0);
  int each = steps / static_cast<int>(searched);
  for (Draft& draft : *tiled) Improve(&draft, each);
  std::vector<Draft> drafts = *tiled;
  ASYRA_RETURN_IF_ERROR(MergeTiles(&drafts, steps / kStepsOfWindow, each));
  TryLayouts(&drafts, each);
  if (options_.copies) TryCopies(&drafts, each);
  if (MayLeaveMargin()) TrySmMargins(&drafts, each);
  ASYRA_RETURN_IF_ERROR(TryJoins(&drafts, steps / kShareOfJoins));
  return drafts;
}

absl::Status DraftSearch::MergeTiles(std::vector<Draft>* drafts, int windows,
                                     int steps) {
  SortDrafts(drafts);
  size_t count = std::min(drafts->size(), kBucketed);
  for (size_t d = 0; options_.bucket && d < count; ++d) {
    Draft draft = (*drafts)[d];
    context_.Begin("bucketing " + draft.plan.name);
    ASYRA_ASSIGN_OR_RETURN(
        bool merged,
        BucketDraft(&draft,
                    {.memory_bytes = ValueBytesOf(draft), .windows = windows},
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
// what waits most for SMs gains most by them. The search goes on
// with the best of what comes out.
void DraftSearch::TrySmMargins(std::vector<Draft>* drafts, int steps) {
  SortDrafts(drafts);
  std::set<std::tuple<int, std::string, bool>> seen;
  std::vector<Draft> with_margin;
  for (const Draft& draft : *drafts) {
    const DraftPlan& plan = draft.plan;
    if (!seen.emplace(plan.tiles, plan.dim, plan.copies).second) continue;
    for (int margin : kSmMargins) {
      context_.Begin(fmt::format("SM margin {} in {}", margin, plan.name));
      Draft trial = draft;
      if (MarginDraft(&trial, margin, Steps(kFirstLook), *context_.costs)) {
        with_margin.push_back(std::move(trial));
      }
    }
  }
  SortDrafts(&with_margin);
  for (size_t d = 0; d < std::min(with_margin.size(), kWithMargin); ++d) {
    Improve(&with_margin[d], steps);
    drafts->push_back(std::move(with_margin[d]));
  }
}

// The best drafts, and the one without tiles, with collectives joined, beside
// those where they are not: what pays in one order need not in another.
absl::Status DraftSearch::TryJoins(std::vector<Draft>* drafts, int steps) {
  if (!options_.bucket || !options_.join) return absl::OkStatus();
  SortDrafts(drafts);
  std::vector<Draft> joined(
      drafts->begin(), drafts->begin() + static_cast<std::ptrdiff_t>(std::min(
                                             drafts->size(), kJoined)));
  if (options_.tiles <= 1) {
    ASYRA_ASSIGN_OR_RETURN(Draft draft, Make(program_, {.name = "1 tile"}));
    joined.push_back(std::move(draft));
  }
  for (size_t d = 0; d < joined.size(); ++d) {
    Draft& draft = joined[d];
    context_.Begin("joining collectives of " + draft.plan.name);
    ASYRA_ASSIGN_OR_RETURN(
        bool pays, JoinDraft(&draft, {.memory_bytes = ValueBytesOf(draft)},
                             *context_.costs));
    if (!pays) {
      bool tiled = draft.plan.tiles > 1;
      if (tiled) (*drafts)[d].remarks = std::move(draft.remarks);
      continue;
    }
    steps_ += draft.found.steps;
    Improve(&draft, steps);
    drafts->push_back(std::move(draft));
  }
  return absl::OkStatus();
}

}  // namespace asyra
