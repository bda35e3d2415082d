#include "passes/schedule/schedule.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "passes/analysis/lanes.h"
#include "passes/schedule/draft.h"
#include "passes/schedule/draft_search.h"
#include "passes/schedule/perturbation.h"
#include "passes/schedule/reorder.h"
#include "passes/schedule/shorten.h"
#include "passes/schedule/sm_margin.h"
#include "simulator/library_memory.h"
#include "simulator/memory.h"

namespace asyra {
namespace {

// Decisions are taken on a program of that many layers.
constexpr int kLayers = 4;
// Steps of the first round of the search; all rounds up to one take so many
// times what those before it did.
constexpr int kFirstRound = 200, kRoundGrowth = 5;
// One in so many steps goes to the whole program, besides.
constexpr int kShareOfWhole = 10;
// Plans of the first round that are followed on the whole program; each round
// has one more.
constexpr size_t kFollowed = 2;
// How often a draft that is too large, for gaps between its values, is searched
// again within less.
constexpr int kTightenings = 3;

// What is there throughout.
int64_t ResidentBytes(const Program& program) {
  int64_t bytes = 0;
  for (const Input& input : program.inputs) {
    bytes += LocalBytes(program.type(input.value), program.mesh);
  }
  return bytes;
}

// A draft of the whole program, and what is known of it in its present order.
struct Candidate {
  Draft draft;
  std::optional<bool> robust;
  bool considered = false;   // for the result
  int64_t device_bytes = 0;  // where these turned out to be too many
};

class Scheduler {
 public:
  Scheduler(const Program& program, const ScheduleOptions& options,
            int64_t capacity_bytes, PassContext& context)
      : program_(program),
        options_(options),
        capacity_bytes_(capacity_bytes),
        context_(context),
        shorter_(Shorten(program, kLayers)) {}

  absl::StatusOr<ScheduleResult> Run() {
    result_.baseline = Simulate(program_, *context_.costs);
    search_.emplace(shorter_, options_, capacity_bytes_, context_,
                    &result_.steps);
    ASYRA_RETURN_IF_ERROR(Follow({.name = "as it stands", .early = false}));
    ASYRA_RETURN_IF_ERROR(
        Follow({.name = "1 tile",
                .scheduler = Searching() ? "" : options_.scheduler}));
    ASYRA_ASSIGN_OR_RETURN(std::vector<Draft> tiled,
                           search_->TiledDrafts(&result_.candidates));
    if (Searching()) {
      ASYRA_RETURN_IF_ERROR(Search(std::move(tiled)));
    } else {
      ASYRA_RETURN_IF_ERROR(FollowBest(std::move(tiled), kMostTiles));
      ASYRA_RETURN_IF_ERROR(Consider());
    }
    ASYRA_RETURN_IF_ERROR(Tighten());
    if (best_ < 0) return NothingFits();
    Finish();
    return std::move(result_);
  }

 private:
  bool Searching() const { return options_.scheduler == "auto"; }
  bool Asked(const DraftPlan& plan) const {
    return options_.tiles == 0 || plan.tiles == options_.tiles;
  }

  // A round depends on those before it and not on whether others follow, and
  // the result is the best of all.
  absl::Status Search(std::vector<Draft> tiled) {
    size_t followed = kFollowed;
    for (int steps : SearchRounds(options_.search_steps)) {
      ASYRA_ASSIGN_OR_RETURN(std::vector<Draft> drafts,
                             search_->Round(steps, &tiled));
      ASYRA_RETURN_IF_ERROR(FollowBest(std::move(drafts), followed++));
      ImproveBest(steps / kShareOfWhole);
      ASYRA_RETURN_IF_ERROR(Consider());
      if (best_ >= 0) result_.round_us.push_back(result_.optimized.makespan_us);
    }
    return absl::OkStatus();
  }

  absl::Status Follow(const DraftPlan& plan,
                      std::vector<std::string> remarks = {}) {
    absl::StatusOr<Draft> draft = search_->Make(program_, plan);
    if (!draft.ok()) return Annotate(draft.status(), plan.name);
    draft->remarks = std::move(remarks);
    candidates_.push_back({*std::move(draft)});
    return absl::OkStatus();
  }

  // Follows the plans of the best `most` drafts of the shorter program on the
  // whole one, and more where nothing fits: the whole one takes more memory.
  // Those with joined collectives come on top, so that joins displace nothing.
  absl::Status FollowBest(std::vector<Draft> drafts, size_t most) {
    SortDrafts(&drafts);
    for (Draft& draft : drafts) {
      if (most == 0 && Best(/*joined=*/false)->found.fits) break;
      if (most > 0 && draft.plan.joined.empty()) --most;
      ASYRA_RETURN_IF_ERROR(Follow(draft.plan, std::move(draft.remarks)));
    }
    return absl::OkStatus();
  }

  // Head, tail and the number of layers are not in what the short program
  // tells: some of the search goes to the whole one.
  void ImproveBest(int steps) {
    Draft* best = Best(/*joined=*/true);
    if (best == nullptr) return;
    if (!best->plan.joined.empty()) Improve(Best(/*joined=*/false), steps);
    Improve(best, steps);
  }

  void Improve(Draft* draft, int steps) {
    if (draft == nullptr) return;
    Merit before = draft->found;
    search_->Improve(draft, steps);
    if (!draft->found.BetterThan(before)) return;
    for (Candidate& candidate : candidates_) {
      if (&candidate.draft == draft) Forget(&candidate);
    }
  }

  // What was known of it in another order.
  static void Forget(Candidate* candidate) {
    candidate->robust.reset();
    candidate->considered = false;
    candidate->device_bytes = 0;
  }

  // Of those that were asked for; with joined collectives only if these may be.
  Draft* Best(bool joined) {
    Draft* best = nullptr;
    for (Candidate& candidate : candidates_) {
      Draft& draft = candidate.draft;
      if (!draft.plan.early || !Asked(draft.plan)) continue;
      if (!joined && !draft.plan.joined.empty()) continue;
      if (best == nullptr || draft.found.BetterThan(best->found)) {
        best = &draft;
      }
    }
    return best;
  }

  // Whether its gain does not depend on exact prices; the program as it stands
  // always passes, and so does what was asked for.
  bool IsRobust(Candidate& candidate) const {
    const Draft& draft = candidate.draft;
    if (!draft.plan.early || options_.tiles != 0) return true;
    if (!candidate.robust.has_value()) {
      candidate.robust =
          SurvivesErrors(PricedProgram(program_, result_.baseline.prices),
                         PricedProgram(draft.program, *context_.costs),
                         draft.found.best.order);
    }
    return *candidate.robust;
  }

  // The fastest that may be chosen, or -1.
  int Fastest(bool joined) {
    std::vector<int> ranked;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const Draft& draft = candidates_[i].draft;
      if (Asked(draft.plan) && Fits(candidates_[i]) &&
          (joined || draft.plan.joined.empty())) {
        ranked.push_back(static_cast<int>(i));
      }
    }
    std::stable_sort(ranked.begin(), ranked.end(), [&](int a, int b) {
      return candidates_[a].draft.found.BetterThan(candidates_[b].draft.found);
    });
    auto robust = absl::c_find_if(
        ranked, [&](int i) { return IsRobust(candidates_[i]); });
    return robust == ranked.end() ? -1 : *robust;
  }

  // What comes next, CTAs for each class of collectives, may give more
  // where these are apart: then both are compared after it.
  absl::Status Consider() {
    ASYRA_ASSIGN_OR_RETURN(int fastest, CompareFastest(/*joined=*/true));
    if (fastest < 0 || candidates_[fastest].draft.plan.joined.empty()) {
      return absl::OkStatus();
    }
    return CompareFastest(/*joined=*/false).status();
  }

  // Which it was that fits once all is counted, or -1.
  absl::StatusOr<int> CompareFastest(bool joined) {
    for (;;) {
      int fastest = Fastest(joined);
      if (fastest < 0) return -1;
      ASYRA_RETURN_IF_ERROR(Compare(fastest));
      if (Fits(candidates_[fastest])) return fastest;
    }
  }

  // Orders are searched by live bytes. Where all that fit by these do not once
  // their values have places, the smallest is searched again within less.
  absl::Status Tighten() {
    for (int i = 0; best_ < 0 && i < kTightenings; ++i) {
      Candidate* least = nullptr;
      for (Candidate& candidate : candidates_) {
        if (candidate.device_bytes == 0) continue;
        if (least == nullptr || candidate.device_bytes < least->device_bytes) {
          least = &candidate;
        }
      }
      if (least == nullptr) break;
      search_->Reserve(least->device_bytes - capacity_bytes_);
      search_->Improve(&least->draft, kFirstRound);
      Forget(least);
      ASYRA_RETURN_IF_ERROR(Consider());
    }
    return absl::OkStatus();
  }

  // Takes it for the result where it is faster once streams are assigned.
  absl::Status Compare(int index) {
    Candidate& candidate = candidates_[index];
    if (std::exchange(candidate.considered, true)) return absl::OkStatus();
    const Draft& draft = candidate.draft;
    Program program = draft.program;
    ApplyOrder(program, draft.found.best.order);
    KeepSmMarginBesideCollectives(program);
    PassContext own = context_;
    own.remarks = draft.remarks;
    if (draft.plan.tiles > 1 && Lanes(program).count < 2) {
      own.Remark("schedule: bucketing merged all {} tiles again",
                 draft.plan.tiles);
    }
    if (!options_.streams.empty()) {
      ASYRA_RETURN_IF_ERROR(
          RunPasses(program, options_.streams, own, options_.manager));
    }
    SimResult simulated = Simulate(program, *context_.costs);
    if (capacity_bytes_ > 0) {
      int64_t bytes = ReportMemory(program, simulated, machine()).device_bytes;
      if (bytes > capacity_bytes_) candidate.device_bytes = bytes;
      if (!Fits(candidate)) return absl::OkStatus();
    }
    if (best_ >= 0 && simulated.makespan_us >= result_.optimized.makespan_us) {
      return absl::OkStatus();
    }
    best_ = index;
    result_.program = std::move(program);
    result_.optimized = std::move(simulated);
    result_.tiles = draft.plan.tiles;
    result_.scheduler = draft.found.best.name;
    remarks_ = std::move(own.remarks);
    return absl::OkStatus();
  }

  const Machine& machine() const { return context_.costs->machine(); }

  static bool Fits(const Candidate& candidate) {
    return candidate.draft.found.fits && candidate.device_bytes == 0;
  }

  // Of the device, for values that take so many bytes at once.
  int64_t DeviceBytes(const Candidate& candidate, int64_t live_bytes) const {
    const Program& program = candidate.draft.program;
    return std::max(candidate.device_bytes,
                    live_bytes + LibraryBytes(program, machine()) +
                        WorkspaceBytes(program, machine()));
  }

  absl::Status NothingFits() const {
    int64_t least = 0;
    for (const Candidate& candidate : candidates_) {
      const Draft& draft = candidate.draft;
      if (!Asked(draft.plan)) continue;
      int64_t bytes = DeviceBytes(candidate, draft.found.least_peak_bytes);
      least = least == 0 ? bytes : std::min(least, bytes);
    }
    return absl::ResourceExhaustedError(fmt::format(
        "no schedule found fits in {} of a device: the least that one takes is "
        "{}, {} too much",
        BytesText(capacity_bytes_), BytesText(least),
        BytesText(least - capacity_bytes_)));
  }

  std::string WhyNot(const Candidate& candidate) const {
    const Draft& draft = candidate.draft;
    const Draft& best = candidates_[best_].draft;
    if (!Asked(draft.plan)) {
      return fmt::format("{} tiles were asked for", options_.tiles);
    }
    if (!Fits(candidate)) {
      return fmt::format(
          "takes {} of a device of {}",
          BytesText(DeviceBytes(candidate, draft.found.peak_bytes)),
          BytesText(capacity_bytes_));
    }
    if (!candidate.robust.value_or(true)) {
      return "its gain does not survive prices 10 % off";
    }
    std::string why = "slower than " + best.plan.name;
    bool faster = draft.found.makespan_us < best.found.makespan_us;
    return faster ? why + " once streams are assigned" : why;
  }

  // Of what has one name only the best is told of.
  void Finish() {
    std::map<std::string, int> told;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      auto [at, is_new] = told.emplace(candidates_[i].draft.plan.name, i);
      if (is_new || at->second == best_) continue;
      bool better = candidates_[i].draft.found.BetterThan(
          candidates_[at->second].draft.found);
      if (better || static_cast<int>(i) == best_) {
        at->second = static_cast<int>(i);
      }
    }
    for (size_t i = 0; i < candidates_.size(); ++i) {
      const Draft& draft = candidates_[i].draft;
      if (told[draft.plan.name] != static_cast<int>(i)) continue;
      bool chosen = static_cast<int>(i) == best_;
      result_.candidates.push_back(
          {draft.plan.name, draft.found.makespan_us,
           DeviceBytes(candidates_[i], draft.found.peak_bytes),
           chosen ? "" : WhyNot(candidates_[i])});
    }
    absl::c_move(remarks_, std::back_inserter(context_.remarks));
  }

  const Program& program_;
  const ScheduleOptions& options_;
  const int64_t capacity_bytes_;  // 0: any number
  PassContext& context_;
  Program shorter_;
  std::optional<DraftSearch> search_;
  std::vector<Candidate> candidates_;  // the first is the program as it stands
  int best_ = -1;                      // of these, the result's
  std::vector<std::string> remarks_;   // on the result
  ScheduleResult result_;
};

}  // namespace

std::vector<int> SearchRounds(int steps) {
  std::vector<int> rounds = {kFirstRound};
  int64_t sum = kFirstRound;
  for (; sum * kRoundGrowth <= steps; sum *= kRoundGrowth) {
    rounds.push_back(static_cast<int>(sum * (kRoundGrowth - 1)));
  }
  return rounds;
}

std::vector<std::string> TileDimsToTry(const ScheduleOptions& options) {
  if (options.tile_dim == "auto") return {"batch", "sequence"};
  return {options.tile_dim};
}

absl::StatusOr<ScheduleResult> Schedule(const Program& program,
                                        const ScheduleOptions& options,
                                        PassContext& context) {
  if (context.costs == nullptr) return Invalid("needs prices: give --machine");
  const Machine& machine = context.costs->machine();
  int64_t capacity =
      options.capacity_bytes.value_or(CapacityBytes(/*gib=*/-1, machine));
  bool must_fit = options.capacity_bytes.has_value() && !options.allow_misfit;
  if (must_fit || capacity == 0) {
    return Scheduler(program, options, capacity, context).Run();
  }
  if (ResidentBytes(program) <= ValueBytes(capacity, program, machine)) {
    auto result = Scheduler(program, options, capacity, context).Run();
    if (!absl::IsResourceExhausted(result.status())) return result;
  }
  auto result = Scheduler(program, options, 0, context).Run();
  if (result.ok()) result->fits = false;
  return result;
}

double SearchNoise(const std::vector<double>& round_us) {
  if (round_us.empty()) return kLeastNoise;
  if (round_us.size() == 1) return kNoiseOfOneRound;
  double last_us = round_us.back(), before_us = round_us[round_us.size() - 2];
  return std::max(kLeastNoise, before_us / last_us - 1);
}

std::vector<double> BestOfRounds(std::vector<double> a, std::vector<double> b) {
  if (a.size() < b.size()) std::swap(a, b);
  for (size_t i = 0; i < a.size() && !b.empty(); ++i) {
    a[i] = std::min(a[i], b[std::min(i, b.size() - 1)]);
  }
  return a;
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status);
}

}  // namespace asyra
