#include "passes/schedule.h"

#include <algorithm>
#include <optional>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"
#include "passes/bucket.h"
#include "passes/draft.h"
#include "passes/draft_search.h"
#include "passes/lanes.h"
#include "passes/perturbation.h"
#include "passes/reorder.h"
#include "passes/shorten.h"
#include "passes/spare_processors.h"

namespace asyra {
namespace {

// Decisions are taken on a program of that many layers.
constexpr int kLayers = 4;
// One in so many steps goes to the whole program.
constexpr int kShareOfWhole = 10;
// How many are tried with collectives joined, and how much each is searched:
// one in so many steps, besides.
constexpr size_t kJoined = 2;
constexpr int kShareOfJoins = 20;

// Bytes that values may take on the device, beside what libraries do.
int64_t DeviceBytes(const Machine& machine) {
  const Gpu& gpu = machine.gpu;
  double mib = gpu.hbm_gib * 1024 - gpu.library_mib.context -
               gpu.library_mib.collectives;
  return static_cast<int64_t>(mib * (1 << 20));
}

double GiB(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

class Scheduler {
 public:
  Scheduler(const Program& program, const ScheduleOptions& options,
            PassContext& context)
      : program_(program), options_(options), context_(context) {}

  absl::StatusOr<ScheduleResult> Run() {
    result_.baseline = Simulate(program_, *context_.costs);
    budget_ = Budget();
    search_.emplace(options_, budget_, context_, &result_.steps);
    ASYRA_ASSIGN_OR_RETURN(std::vector<DraftPlan> plans, Plans());
    for (const DraftPlan& plan : plans) {
      absl::StatusOr<Draft> draft = Make(program_, plan);
      if (!draft.ok()) return Annotate(draft.status(), plan.name);
      drafts_.push_back(*std::move(draft));
    }
    if (Searching()) ImproveBest();
    ASYRA_ASSIGN_OR_RETURN(int chosen, Choose());
    Finish(chosen);
    return std::move(result_);
  }

 private:
  bool Searching() const { return options_.scheduler == "auto"; }
  bool Asked(const DraftPlan& plan) const {
    return options_.tiles == 0 || plan.tiles == options_.tiles;
  }

  int64_t Budget() const {
    if (options_.memory_bytes > 0) return options_.memory_bytes;
    int64_t device = DeviceBytes(context_.costs->machine());
    return result_.baseline.peak_bytes <= device ? device : 0;
  }

  absl::StatusOr<Draft> Make(const Program& program, const DraftPlan& plan) {
    context_.Begin("drafting " + plan.name);
    int steps = Searching() ? kFirstLook : options_.search_steps;
    ASYRA_ASSIGN_OR_RETURN(
        Draft draft, MakeDraft(program, plan, search_->Steps(steps), context_,
                               options_.manager));
    result_.steps += draft.found.steps;
    return draft;
  }

  // What is to be done with the whole program: the plans that a shorter one
  // tells, whether they will be chosen or not.
  absl::StatusOr<std::vector<DraftPlan>> Plans() {
    std::vector<DraftPlan> plans = {
        {.name = "as it stands", .early = false},
        {.name = "1 tile", .scheduler = Searching() ? "" : options_.scheduler}};
    Program shorter = Shorten(program_, kLayers);
    ASYRA_ASSIGN_OR_RETURN(std::vector<Draft> drafts, TiledDrafts(shorter));
    if (Searching()) {
      ASYRA_RETURN_IF_ERROR(search_->LookAgain(&drafts));
      ASYRA_RETURN_IF_ERROR(TryJoins(shorter, plans[1], &drafts));
    }
    for (Draft& draft : drafts) {
      plans.push_back(std::move(draft.plan));
      for (std::string& remark : draft.remarks) {
        remarks_.emplace_back(plans.back().name, std::move(remark));
      }
    }
    return plans;
  }

  // The best drafts, and the one without tiles, with collectives joined, beside
  // those where they are not: what pays in one order need not in another.
  absl::Status TryJoins(const Program& program, const DraftPlan& untiled,
                        std::vector<Draft>* drafts) {
    if (!options_.bucket || !options_.join) return absl::OkStatus();
    SortDrafts(drafts);
    std::vector<Draft> joined(
        drafts->begin(), drafts->begin() + static_cast<std::ptrdiff_t>(std::min(
                                               drafts->size(), kJoined)));
    if (Asked(untiled)) {
      ASYRA_ASSIGN_OR_RETURN(Draft draft, Make(program, untiled));
      joined.push_back(std::move(draft));
    }
    for (size_t d = 0; d < joined.size(); ++d) {
      Draft& draft = joined[d];
      context_.Begin("joining collectives of " + draft.plan.name);
      ASYRA_ASSIGN_OR_RETURN(
          bool pays,
          JoinDraft(&draft, {.memory_bytes = budget_}, *context_.costs));
      if (!pays) {
        bool tiled = draft.plan.tiles > 1;
        if (tiled) (*drafts)[d].remarks = std::move(draft.remarks);
        continue;
      }
      result_.steps += draft.found.steps;
      search_->Improve(&draft, options_.search_steps / kShareOfJoins);
      drafts->push_back(std::move(draft));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Draft>> TiledDrafts(const Program& program) {
    std::vector<Draft> drafts;
    for (int tiles = 2; tiles <= std::max(kMostTiles, options_.tiles);
         ++tiles) {
      if (options_.tiles != 0 && options_.tiles != tiles) continue;
      absl::StatusOr<Draft> draft = Tiled(program, tiles);
      if (draft.ok()) {
        drafts.push_back(*std::move(draft));
      } else if (options_.tiles == tiles) {
        return draft.status();
      } else {
        result_.candidates.push_back({fmt::format("{} tiles", tiles), 0, 0,
                                      std::string(MessageOf(draft.status()))});
      }
    }
    return drafts;
  }

  // Along the dimension asked for, or the first that cuts.
  absl::StatusOr<Draft> Tiled(const Program& program, int tiles) {
    absl::Status status;
    for (const std::string& dim : TileDimsToTry(options_)) {
      DraftPlan plan{.name = fmt::format("{} tiles along the {}", tiles, dim),
                     .tiles = tiles,
                     .dim = dim,
                     .scheduler = Searching() ? "" : options_.scheduler};
      absl::StatusOr<Draft> draft = Make(program, plan);
      if (draft.ok()) return draft;
      // Why the batch does not cut says more than why the sequence does not.
      if (status.ok()) status = draft.status();
    }
    return status;
  }

  // Head, tail and the number of layers are not in what the short program
  // tells: some of the search goes to the whole one.
  void ImproveBest() {
    Draft* best = Best(/*joined=*/true);
    if (best == nullptr) return;
    int steps = options_.search_steps / kShareOfWhole;
    if (!best->plan.joined.empty())
      search_->Improve(Best(/*joined=*/false), steps);
    search_->Improve(best, steps);
  }

  // Of those that were asked for; with joined collectives only if these may be.
  Draft* Best(bool joined) {
    Draft* best = nullptr;
    for (Draft& draft : drafts_) {
      if (!draft.plan.early || !Asked(draft.plan)) continue;
      if (!joined && !draft.plan.joined.empty()) continue;
      if (best == nullptr || draft.found.BetterThan(best->found)) {
        best = &draft;
      }
    }
    return best;
  }

  bool IsRobust(const Draft& draft) const {
    return SurvivesErrors(PricedProgram(program_, result_.baseline.prices),
                          PricedProgram(draft.program, *context_.costs),
                          draft.found.best.order);
  }

  // The best whose gain does not hang on exact prices; the program as it
  // stands always passes.
  absl::StatusOr<int> Choose() {
    std::vector<int> ranked;
    for (size_t d = 0; d < drafts_.size(); ++d) {
      if (Asked(drafts_[d].plan)) ranked.push_back(static_cast<int>(d));
    }
    std::stable_sort(ranked.begin(), ranked.end(), [&](int a, int b) {
      return drafts_[a].found.BetterThan(drafts_[b].found);
    });
    std::vector<std::string> why(
        drafts_.size(), fmt::format("{} tiles were asked for", options_.tiles));
    int chosen = -1;
    for (int d : ranked) {
      const Draft& draft = drafts_[d];
      if (!draft.found.fits) {
        why[d] = fmt::format("needs {:.3f} GiB, the budget is {:.3f}",
                             GiB(draft.found.peak_bytes), GiB(budget_));
      } else if (chosen >= 0) {
        why[d] = "slower than " + drafts_[chosen].plan.name;
      } else if (draft.plan.early && options_.tiles == 0 && !IsRobust(draft)) {
        why[d] = "its gain does not survive prices 10 % off";
      } else {
        chosen = d;
        why[d].clear();
      }
    }
    if (chosen < 0) return NothingFits(ranked);
    ASYRA_RETURN_IF_ERROR(LookAhead(ranked, &chosen, &why));
    for (size_t d = 0; d < drafts_.size(); ++d) {
      result_.candidates.push_back({drafts_[d].plan.name,
                                    drafts_[d].found.makespan_us,
                                    drafts_[d].found.peak_bytes, why[d]});
    }
    return chosen;
  }

  // What comes next, thread blocks for each class of collectives, may give more
  // where these are apart: a choice for joined ones is looked at once more
  // after it.
  absl::Status LookAhead(absl::Span<const int> ranked, int* chosen,
                         std::vector<std::string>* why) {
    const Draft& joined = drafts_[*chosen];
    if (joined.plan.joined.empty()) return absl::OkStatus();
    auto apart = absl::c_find_if(ranked, [&](int d) {
      const Draft& draft = drafts_[d];
      return draft.plan.joined.empty() && draft.found.fits &&
             (!draft.plan.early || IsRobust(draft));
    });
    if (apart == ranked.end()) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(double joined_us, LoweredUs(joined));
    ASYRA_ASSIGN_OR_RETURN(double apart_us, LoweredUs(drafts_[*apart]));
    if (joined_us <= apart_us) return absl::OkStatus();
    (*why)[*chosen] = fmt::format("slower than {} once streams are assigned",
                                  drafts_[*apart].plan.name);
    (*why)[*apart].clear();
    *chosen = *apart;
    return absl::OkStatus();
  }

  absl::StatusOr<double> LoweredUs(const Draft& draft) const {
    Program program = draft.program;
    ApplyOrder(program, draft.found.best.order);
    PassContext own = context_;
    ASYRA_RETURN_IF_ERROR(RunPasses(program, "assign_streams", own));
    return Simulate(program, *own.costs, {.lower_bound = false}).makespan_us;
  }

  absl::Status NothingFits(absl::Span<const int> drafts) const {
    int64_t least = drafts_[drafts[0]].found.least_peak_bytes;
    for (int d : drafts) {
      least = std::min(least, drafts_[d].found.least_peak_bytes);
    }
    return absl::ResourceExhaustedError(fmt::format(
        "no schedule found fits in {:.3f} GiB a device: the least that one "
        "takes is {:.3f} GiB",
        GiB(budget_), GiB(least)));
  }

  void Finish(int chosen) {
    Draft& draft = drafts_[chosen];
    ApplyOrder(draft.program, draft.found.best.order);
    SpareOnlyBesideCollectives(draft.program);
    result_.program = std::move(draft.program);
    result_.optimized = Simulate(result_.program, *context_.costs);
    result_.tiles = draft.plan.tiles;
    result_.scheduler = draft.found.best.name;
    if (result_.tiles > 1 && Lanes(result_.program).count < 2) {
      context_.Remark("schedule: bucketing merged all {} tiles again",
                      result_.tiles);
    }
    for (auto& [name, remark] : remarks_) {
      if (name == draft.plan.name) {
        context_.remarks.push_back(std::move(remark));
      }
    }
  }

  const Program& program_;
  const ScheduleOptions& options_;
  PassContext& context_;
  int64_t budget_ = 0;
  std::optional<DraftSearch> search_;
  std::vector<Draft> drafts_;  // the first is the program as it stands
  // Of the shorter drafts: the draft's name, what is to be said of it.
  std::vector<std::pair<std::string, std::string>> remarks_;
  ScheduleResult result_;
};

}  // namespace

std::vector<std::string> TileDimsToTry(const ScheduleOptions& options) {
  if (options.tile_dim == "auto") return {"batch", "sequence"};
  return {options.tile_dim};
}

absl::StatusOr<ScheduleResult> Schedule(const Program& program,
                                        const ScheduleOptions& options,
                                        PassContext& context) {
  if (context.costs == nullptr) return Invalid("needs prices: give --machine");
  return Scheduler(program, options, context).Run();
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status);
}

}  // namespace asyra
