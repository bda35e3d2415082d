#include "passes/search/schedule.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "passes/analysis/lanes.h"
#include "passes/analysis/shorten.h"
#include "passes/schedule/order/reorder.h"
#include "passes/search/candidate.h"
#include "passes/search/candidate_search.h"
#include "passes/search/whole_candidates.h"
#include "simulator/replay/library_memory.h"
#include "simulator/replay/memory.h"

namespace asyra {
namespace {

// One in so many steps is spent on the whole program, in addition, and no more
// than one in so much of the work.
constexpr int kShareOfWhole = 10, kWorkOfWhole = 4;
// Plans of the first round that are repeated on the whole program; each later
// round has one more.
constexpr size_t kFollowed = 2;
// Later rounds rarely gain so much.
constexpr double kFarBehind = 1.05;
// The number of searches, with a lower limit each, of candidates that are too
// large because of gaps between their values.
constexpr int kTightenings = 3;
// Plans that are repeated on the whole program, and candidates whose values are
// placed, if the smallest schedule is wanted.
constexpr size_t kSmallestFollowed = 6, kSmallestPlaced = 4;
// The least gain that a candidate must promise where another one fits, as a
// share of the makespan.
constexpr double kLeastGain = 0.01;

class Scheduler {
 public:
  // `any_clock`: the costs of the context without their clock. `baseline`: the
  // program by them.
  Scheduler(const Program& program, const ScheduleOptions& options,
            int64_t capacity_bytes, const CostModel& any_clock,
            const SimResult& baseline, PassContext& context)
      : program_(program),
        options_(options),
        capacity_bytes_(capacity_bytes),
        any_clock_(any_clock),
        context_(context),
        shorter_(Shorten(program, kScheduledLayers, &cut_bytes_)),
        whole_(program, options, capacity_bytes, *context.costs) {
    result_.baseline = baseline;
  }

  absl::StatusOr<ScheduleResult> Run() {
    ASYRA_ASSIGN_OR_RETURN(std::vector<Candidate> first, Begin());
    if (whole_.IsHopeless() && whole_.IsHopeless(first)) {
      return whole_.NothingFits();
    }
    if (Searching()) {
      ASYRA_RETURN_IF_ERROR(Search(std::move(first)));
    } else {
      ASYRA_RETURN_IF_ERROR(FollowBest(std::move(first), kMostTiles));
      ASYRA_RETURN_IF_ERROR(Consider());
    }
    ASYRA_RETURN_IF_ERROR(FollowSmaller());
    ASYRA_RETURN_IF_ERROR(Tighten());
    if (best_ < 0) return whole_.NothingFits();
    if (options_.runners_up > 0) ASYRA_RETURN_IF_ERROR(KeepRunnersUp());
    Finish();
    return std::move(result_);
  }

  // Nothing fits the capacity of one byte: less memory is better then.
  absl::StatusOr<ScheduleResult> RunSmallest() {
    ASYRA_ASSIGN_OR_RETURN(std::vector<Candidate> candidates, Begin());
    if (Searching()) {
      std::vector<Candidate> first = std::move(candidates);
      ASYRA_ASSIGN_OR_RETURN(candidates, search_->Round(kFirstRound, &first));
    }
    SortCandidates(&candidates);
    candidates.resize(std::min(candidates.size(), kSmallestFollowed));
    ASYRA_RETURN_IF_ERROR(FollowBest(std::move(candidates), kSmallestFollowed));
    if (Searching()) ImproveBest(StepsOfWhole(kFirstRound));
    ASYRA_RETURN_IF_ERROR(TakeSmallest());
    if (best_ < 0) return whole_.NothingFits();
    Finish();
    return std::move(result_);
  }

 private:
  // The whole program without tiles, and what a search begins with.
  absl::StatusOr<std::vector<Candidate>> Begin() {
    search_.emplace(shorter_, cut_bytes_, options_, capacity_bytes_, context_,
                    &result_.steps);
    ASYRA_RETURN_IF_ERROR(
        Follow(PlanOf("baseline", {.early = false, .taken = options_.taken})));
    CandidatePlan untiled = PlanOf("1 tile", {.taken = options_.taken});
    if (!Searching()) untiled.scheduler = options_.scheduler;
    ASYRA_RETURN_IF_ERROR(Follow(untiled));
    return search_->FirstCandidates(&result_.candidates);
  }

  // Takes the smallest of those that may be chosen, by all memory of a device.
  absl::Status TakeSmallest() {
    for (int i : whole_.Smallest(kSmallestPlaced)) {
      WholeCandidate& whole = whole_[i];
      ASYRA_ASSIGN_OR_RETURN(Issued issued, Issue(&whole));
      if (best_ >= 0 && whole.device_bytes >= result_.device_bytes) continue;
      best_ = i;
      result_.device_bytes = whole.device_bytes;
      result_.program = std::move(issued.program);
      result_.optimized = std::move(issued.simulated);
      result_.tiles = whole.candidate.plan.tiles;
      result_.scheduler = whole.candidate.found.best.name;
      remarks_ = std::move(issued.remarks);
    }
    return absl::OkStatus();
  }

  bool Searching() const { return options_.scheduler == "auto"; }

  // A round depends on those before it and not on whether others follow, and
  // the result is the best of all.
  absl::Status Search(std::vector<Candidate> first) {
    size_t followed = kFollowed;
    std::vector<int> rounds = SearchRounds(options_.search_steps);
    for (int steps : rounds) {
      ASYRA_ASSIGN_OR_RETURN(std::vector<Candidate> candidates,
                             search_->Round(steps, &first));
      ASYRA_RETURN_IF_ERROR(FollowBest(std::move(candidates), followed++));
      ImproveBest(StepsOfWhole(steps));
      ASYRA_RETURN_IF_ERROR(Consider());
      if (best_ < 0) {
        if (whole_.IsHopeless()) break;
        continue;
      }
      result_.round_us.push_back(result_.optimized.makespan_us);
      if (IsFarBehind()) break;
      bool is_first = result_.round_us.size() == 1;
      if (is_first && options_.goes_on != nullptr &&
          !options_.goes_on(result_.round_us[0])) {
        break;
      }
    }
    return absl::OkStatus();
  }

  // Compared after as many rounds, so that a larger budget changes nothing.
  bool IsFarBehind() const {
    size_t round = result_.round_us.size() - 1;
    return round < options_.rival_us.size() &&
           result_.round_us[round] > kFarBehind * options_.rival_us[round];
  }

  absl::Status Follow(const CandidatePlan& plan,
                      std::vector<std::string> remarks = {}) {
    absl::StatusOr<Candidate> candidate = search_->Make(program_, plan);
    if (!candidate.ok()) return Annotate(candidate.status(), plan.name);
    candidate->remarks = std::move(remarks);
    if (candidate->found.lost > 0) {
      candidate->remarks.push_back(fmt::format(
          "schedule: {} priorities found with fewer layers are of no op here",
          candidate->found.lost));
    }
    whole_.Add(*std::move(candidate));
    return absl::OkStatus();
  }

  // Repeats the plans of the best `most` candidates of the short program on the
  // whole one, and more if nothing fits, since the whole one needs more memory.
  // Candidates with joined collectives are additional, so that they displace no
  // others.
  absl::Status FollowBest(std::vector<Candidate> candidates, size_t most) {
    SortCandidates(&candidates);
    for (Candidate& candidate : candidates) {
      if (most == 0 && (whole_.Best(/*joined=*/false)->candidate.found.fits ||
                        whole_.IsHopeless())) {
        break;
      }
      absl::Status followed =
          Follow(candidate.plan, std::move(candidate.remarks));
      // The groups were found in an order that the whole program is not in, in
      // which joining others may make a cycle.
      if (absl::IsInvalidArgument(followed)) {
        result_.candidates.push_back(
            {candidate.plan.name, 0, 0, std::string(MessageOf(followed))});
        continue;
      }
      ASYRA_RETURN_IF_ERROR(followed);
      if (most > 0 && candidate.plan.displaces()) --most;
    }
    return absl::OkStatus();
  }

  // A step takes as long as the program has ops.
  int StepsOfWhole(int steps) const {
    // There may be no op at all.
    auto most = static_cast<size_t>(steps) * shorter_.ops.size() /
                std::max<size_t>(program_.ops.size(), 1) / kWorkOfWhole;
    return std::min(steps / kShareOfWhole, static_cast<int>(most));
  }

  // The short program does not represent head, tail and the number of layers:
  // some of the search is spent on the whole one.
  void ImproveBest(int steps) {
    WholeCandidate* best = whole_.Best(/*joined=*/true);
    if (best == nullptr) return;
    if (!best->candidate.plan.displaces()) {
      Improve(whole_.Best(/*joined=*/false), steps);
    }
    Improve(best, steps);
  }

  void Improve(WholeCandidate* whole, int steps) {
    if (whole == nullptr) return;
    Merit before = whole->candidate.found;
    search_->Improve(&whole->candidate, steps);
    if (whole->candidate.found.BetterThan(before)) whole->Forget();
  }

  // The next step, CTAs for each class of collectives, may gain more if these
  // are separate: then both are compared after it.
  absl::Status Consider() {
    ASYRA_ASSIGN_OR_RETURN(int fastest, CompareFastest(/*joined=*/true));
    if (fastest < 0 || !whole_[fastest].candidate.plan.joined) {
      return absl::OkStatus();
    }
    return CompareFastest(/*joined=*/false).status();
  }

  // Returns the index of the one that fits with all memory counted, or -1.
  absl::StatusOr<int> CompareFastest(bool joined) {
    for (;;) {
      int fastest = whole_.Fastest(joined);
      if (fastest < 0) return -1;
      ASYRA_RETURN_IF_ERROR(Compare(fastest));
      if (whole_[fastest].fits()) return fastest;
    }
  }

  // The fastest if it does not fit, without what costs memory. The short
  // program does not show how much that is.
  absl::Status FollowSmaller() {
    const WholeCandidate* large = nullptr;
    for (const WholeCandidate& whole : whole_.all()) {
      if (whole.fits() || !IsWorthIt(whole)) continue;
      if (large == nullptr || whole.candidate.found.makespan_us <
                                  large->candidate.found.makespan_us) {
        large = &whole;
      }
    }
    if (large == nullptr || !Searching()) return absl::OkStatus();
    const CandidatePlan plan = large->candidate.plan;
    for (const Decision& decision : Decisions()) {
      if (!decision.costs_memory) continue;
      std::optional<CandidatePlan> smaller = Without(decision, plan);
      if (!smaller.has_value()) continue;
      absl::Status followed = Follow(*smaller);
      if (absl::IsInvalidArgument(followed)) continue;
      ASYRA_RETURN_IF_ERROR(followed);
      Improve(&whole_.all().back(), StepsOfWhole(kFirstRound));
    }
    return Consider();
  }

  // Orders are searched by live bytes. What fits by these and not with its
  // memory offsets is searched again with a lower limit, as long as it is
  // faster than what does fit: the fastest that is over by little, or the
  // smallest if nothing fits.
  absl::Status Tighten() {
    for (int i = 0; i < kTightenings; ++i) {
      WholeCandidate* again = nullptr;
      for (WholeCandidate& whole : whole_.all()) {
        if (whole.device_bytes == 0 || !IsWorthIt(whole)) continue;
        if (again == nullptr || IsTightenedBefore(whole, *again)) {
          again = &whole;
        }
      }
      if (again == nullptr) break;
      search_->Reserve(again->device_bytes - whole_.LiveBytes(*again));
      search_->Improve(&again->candidate, kFirstRound);
      again->Forget();
      // Compare counts its own gaps.
      again->candidate.found.fits = whole_.LiveBytes(*again) <= capacity_bytes_;
      ASYRA_RETURN_IF_ERROR(Consider());
    }
    return absl::OkStatus();
  }

  bool IsWorthIt(const WholeCandidate& whole) const {
    return best_ < 0 || whole.candidate.found.makespan_us <
                            (1 - kLeastGain) * result_.optimized.makespan_us;
  }
  bool IsTightenedBefore(const WholeCandidate& a,
                         const WholeCandidate& b) const {
    if (best_ < 0) return a.device_bytes < b.device_bytes;
    // A percent of memory costs about a percent of time.
    auto cost = [](const WholeCandidate& whole) {
      return whole.candidate.found.makespan_us *
             static_cast<double>(whole.device_bytes);
    };
    return cost(a) < cost(b);
  }

  // Makes it the result if it is faster once streams are assigned.
  absl::Status Compare(int index) {
    WholeCandidate& whole = whole_[index];
    if (std::exchange(whole.considered, true)) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(Issued issued, Issue(&whole));
    if (!whole.fits()) return absl::OkStatus();
    const Candidate& candidate = whole.candidate;
    double us =
        ComparedUs(issued.simulated.makespan_us, candidate.plan.least_gain);
    if (best_ >= 0 && us >= result_.ComparedUs()) return absl::OkStatus();
    best_ = index;
    result_.least_gain = candidate.plan.least_gain;
    result_.program = std::move(issued.program);
    result_.optimized = std::move(issued.simulated);
    result_.tiles = candidate.plan.tiles;
    result_.scheduler = candidate.found.best.name;
    remarks_ = std::move(issued.remarks);
    return absl::OkStatus();
  }

  // A candidate in its order, with its streams.
  struct Issued {
    Program program;
    SimResult simulated;
    std::vector<std::string> remarks;
  };

  // Fills device_bytes where they are too many.
  absl::StatusOr<Issued> Issue(WholeCandidate* whole) {
    const Candidate& candidate = whole->candidate;
    Program program = candidate.program;
    ApplyOrder(program, candidate.found.best.order);
    PassContext own = context_;
    own.remarks = candidate.remarks;
    if (candidate.plan.tiles > 1 && Lanes(program).count < 2) {
      own.Remark("schedule: bucketing merged all {} tiles again",
                 candidate.plan.tiles);
    }
    Program as_it_is = capacity_bytes_ > 0 ? program : Program();
    if (!options_.streams.empty()) {
      ASYRA_RETURN_IF_ERROR(
          RunPasses(program, options_.streams, own, options_.manager));
    }
    SimResult simulated = Simulate(program, any_clock_);
    if (capacity_bytes_ > 0) {
      int64_t bytes = BytesOf(program, simulated);
      // On more streams, fewer values share bytes.
      if (bytes > capacity_bytes_ && !options_.streams.empty()) {
        SimResult one = Simulate(as_it_is, any_clock_);
        int64_t fewer = BytesOf(as_it_is, one);
        if (fewer <= bytes) {
          program = std::move(as_it_is);
          simulated = std::move(one);
          bytes = fewer;
        }
      }
      if (bytes > capacity_bytes_) whole_.SetTooLarge(whole, bytes);
    }
    return Issued{std::move(program), std::move(simulated),
                  std::move(own.remarks)};
  }

  // The fastest of the others, by the search, that are other programs. The
  // baseline is none of them.
  absl::Status KeepRunnersUp() {
    std::vector<std::string> texts = {ToString(result_.program)};
    for (int i : whole_.Others(best_)) {
      if (result_.runners_up.size() >= options_.runners_up) break;
      ASYRA_ASSIGN_OR_RETURN(Issued issued, Issue(&whole_[i]));
      std::string text = ToString(issued.program);
      if (!whole_[i].fits() || absl::c_linear_search(texts, text)) continue;
      texts.push_back(std::move(text));
      result_.runners_up.push_back({whole_[i].candidate.plan.name,
                                    std::move(issued.program),
                                    issued.simulated.makespan_us});
    }
    absl::c_stable_sort(result_.runners_up, IsFaster);
    return absl::OkStatus();
  }

  // Returns the bytes of a device in all, by its arena. To place values in one
  // that is nearly full takes long, and several candidates may be the same
  // program.
  int64_t BytesOf(const Program& program, const SimResult& simulated) {
    auto [known, is_new] = bytes_of_.try_emplace(ToString(program));
    if (is_new) {
      known->second =
          ReportMemory(program, simulated, machine(), capacity_bytes_)
              .device_bytes;
    }
    return known->second;
  }

  const Machine& machine() const { return context_.costs->machine(); }

  void Finish() {
    absl::c_move(whole_.Choices(best_), std::back_inserter(result_.candidates));
    absl::c_move(remarks_, std::back_inserter(context_.remarks));
  }

  const Program& program_;
  const ScheduleOptions& options_;
  const int64_t capacity_bytes_;  // 0: any number
  const CostModel& any_clock_;
  PassContext& context_;
  int64_t cut_bytes_ = 0;  // of what shorter_ lacks
  Program shorter_;
  std::optional<CandidateSearch> search_;
  WholeCandidates whole_;
  int best_ = -1;                     // of these, the result's
  std::vector<std::string> remarks_;  // on the result
  ScheduleResult result_;
  std::map<std::string, int64_t> bytes_of_;  // by the text of a program
};

// Orders are compared by the costs of the context, whole programs by
// `any_clock`.
absl::StatusOr<ScheduleResult> ScheduleWithin(const Program& program,
                                              const ScheduleOptions& options,
                                              const CostModel& any_clock,
                                              const SimResult& baseline,
                                              PassContext& context) {
  auto within = [&](int64_t capacity) {
    return Scheduler(program, options, capacity, any_clock, baseline, context);
  };
  const Machine& machine = any_clock.machine();
  if (options.smallest) return within(/*capacity=*/1).RunSmallest();
  int64_t capacity = CapacityOf(options, machine);
  bool must_fit = options.capacity_bytes.has_value() && !options.allow_misfit;
  if (must_fit || capacity == 0) return within(capacity).Run();
  if (ResidentBytes(program) <= ValueBytes(capacity, program, machine)) {
    auto result = within(capacity).Run();
    if (!absl::IsResourceExhausted(result.status())) return result;
  }
  auto result = within(0).Run();
  if (result.ok()) result->fits = false;
  return result;
}

}  // namespace

absl::StatusOr<ScheduleResult> Schedule(const Program& program,
                                        const ScheduleOptions& options,
                                        PassContext& context) {
  if (context.costs == nullptr)
    return Invalid("needs costs: there are none in PassContext::costs");
  const CostModel& any_clock = *context.costs;
  SimResult baseline = Simulate(program, any_clock);
  const CostModel one_clock = any_clock.AtClock(baseline.clock_mhz);
  context.costs = &one_clock;
  absl::StatusOr<ScheduleResult> result =
      ScheduleWithin(program, options, any_clock, baseline, context);
  context.costs = &any_clock;
  return result;
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status);
}

}  // namespace asyra
