#include "passes/schedule/tile/bucket.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "absl/algorithm/container.h"
#include "fmt/format.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "passes/analysis/int_option.h"
#include "passes/schedule/order/reorder.h"
#include "passes/schedule/tile/bucket_candidates.h"
#include "passes/schedule/tile/merge_tiles.h"
#include "simulator/replay/library_memory.h"

namespace asyra {
namespace {

constexpr int64_t kAnyCost = std::numeric_limits<int64_t>::max();

}  // namespace

class TileBucketing::Bucketer {
 public:
  Bucketer(const Program& program, const CostModel& costs,
           const BucketOptions& options)
      : merger_(program),
        costs_(costs),
        options_(options),
        candidates_(BucketCandidates(merger_)) {
    std::erase_if(candidates_, [&](const BucketCandidate& c) {
      return c.join ? !options.join : options.from != nullptr;
    });
    tiles_ = static_cast<int>(absl::c_count_if(
        candidates_, [](const BucketCandidate& c) { return !c.join; }));
  }

  absl::StatusOr<BucketResult> Run(int windows) {
    if (!alone_tried_.has_value()) ASYRA_RETURN_IF_ERROR(TryAlone());
    at_ = *alone_tried_;
    double before_us = at_.best.found.makespan_us;
    TrySet(BestSet(WithoutOverlaps(values_), bytes_, Slack()));
    TryWindows(windows);
    Repair();
    BucketResult result;
    result.saved_us = before_us - at_.best.found.makespan_us;
    for (int c = 0; c < count(); ++c) Tell(c, &result);
    result.program = std::move(at_.best.program);
    if (options_.from == nullptr) {
      ApplyOrder(result.program, at_.best.found.best.order);
    }
    result.found = std::move(at_.best.found);
    result.steps = at_.steps;
    return result;
  }

 private:
  // A set of candidates merged, in the best order found.
  struct Trial {
    std::vector<int> set;
    Program program;
    OrderSearchResult found;
  };
  // The state of a run.
  struct State {
    Trial best, alone;
    std::vector<std::string> why;  // by candidate, if it is not merged
    int steps = 0;
  };

  int count() const { return static_cast<int>(candidates_.size()); }

  void Tell(int c, BucketResult* result) const {
    const BucketCandidate& candidate = candidates_[c];
    if (!candidate.join) result->places += candidate.places;
    if (!Has(c)) {
      result->rejected.push_back(
          fmt::format("{} {}: {}", candidate.join ? "joining" : "merging",
                      candidate.name, at_.why[c]));
      return;
    }
    result->set.push_back(NameAndKey(candidate));
    if (candidate.join) {
      result->joined.push_back(candidate.places == 1
                                   ? candidate.name
                                   : fmt::format("{}, at {} places",
                                                 candidate.name,
                                                 candidate.places));
    } else {
      result->merged += candidate.places;
    }
  }

  bool Has(int c) const {
    return std::find(at_.best.set.begin(), at_.best.set.end(), c) !=
           at_.best.set.end();
  }

  // Returns the memory left by the best so far.
  int64_t Slack() const {
    if (options_.memory_bytes == 0) return kAnyCost;
    return std::max<int64_t>(0,
                             options_.memory_bytes - at_.best.found.peak_bytes);
  }

  absl::StatusOr<Trial> Try(std::vector<int> set) {
    Trial trial{std::move(set), {}, {}};
    OrderSearchOptions search{.steps = options_.steps,
                              .memory_bytes = options_.memory_bytes};
    if (!trial.set.empty()) search.limit_us = Limit();
    NamedOrder seed;
    if (options_.from == nullptr) {
      ASYRA_ASSIGN_OR_RETURN(trial.program,
                             MergeCandidates(merger_, candidates_, trial.set));
      seed = {"serial", SerialOrder(trial.program)};
    } else {
      seed = options_.from->best;
      ASYRA_ASSIGN_OR_RETURN(
          trial.program,
          MergeCandidates(merger_, candidates_, trial.set, &seed.order));
      // The classes are others where collectives are joined.
      search.rules.push_back(options_.from->rule);
      if (!trial.set.empty()) search.rules[0].classes.clear();
    }
    trial.found =
        SearchOrder(CostedProgram(trial.program, costs_), {seed}, search);
    at_.steps += trial.found.steps;
    return trial;
  }

  // Tries the sets that all runs begin with: nothing merged, and each candidate
  // alone.
  absl::Status TryAlone() {
    at_ = {};
    at_.why.resize(candidates_.size());
    values_.assign(candidates_.size(), 0);
    bytes_.assign(candidates_.size(), 0);
    ASYRA_ASSIGN_OR_RETURN(at_.best, Try({}));
    for (int c = 0; c < count(); ++c) Value(c, &values_[c], &bytes_[c]);
    alone_tried_ = at_;
    return absl::OkStatus();
  }

  // Merges one candidate alone; none if that is impossible.
  void Value(int c, double* value, int64_t* cost) {
    absl::StatusOr<Trial> trial = TryAndRemember({c});
    if (!trial.ok()) {
      at_.why[c] = MessageOf(trial.status());
      return;
    }
    *value = at_.best.found.makespan_us - trial->found.makespan_us;
    *cost = std::max<int64_t>(
        0, trial->found.peak_bytes - at_.best.found.peak_bytes);
    at_.why[c] =
        trial->found.fits ? TimeChangeText(-*value) : "over the memory budget";
    if (!trial->found.fits && at_.best.found.fits) *value = 0;
    if (at_.alone.set.empty() || trial->found.BetterThan(at_.alone.found)) {
      at_.alone = *std::move(trial);
    }
  }

  // Returns whether two candidates would join the same collectives.
  bool Overlap(int a, int b) const {
    if (!candidates_[a].join || !candidates_[b].join) return false;
    std::set<int> ops;
    for (const TileGroup& group : candidates_[a].groups) {
      ops.insert(group.begin(), group.end());
    }
    return absl::c_any_of(candidates_[b].groups, [&](const TileGroup& group) {
      return absl::c_any_of(group, [&](int op) { return ops.contains(op); });
    });
  }

  // Returns the values, of which overlapping candidates keep only the largest.
  std::vector<double> WithoutOverlaps(std::vector<double> values) {
    for (int c : ByValue(values)) {
      if (values[c] <= 0) continue;
      for (int other = 0; other < count(); ++other) {
        if (other == c || values[other] <= 0 || !Overlap(c, other)) continue;
        values[other] = 0;
        at_.why[other] += " alone, less than what it overlaps with";
      }
    }
    return values;
  }

  // Returns the candidates, the most valuable first.
  static std::vector<int> ByValue(const std::vector<double>& values) {
    std::vector<int> by_value(values.size());
    std::iota(by_value.begin(), by_value.end(), 0);
    std::stable_sort(by_value.begin(), by_value.end(),
                     [&](int a, int b) { return values[a] > values[b]; });
    return by_value;
  }

  // Keeps the set when it is better than the best so far.
  bool TrySet(std::vector<int> set) {
    if (set.empty() || set == at_.best.set || IsKnownWorse(set)) return false;
    absl::StatusOr<Trial> trial = TryAndRemember(std::move(set));
    if (!trial.ok() || !trial->found.BetterThan(at_.best.found)) return false;
    at_.best = *std::move(trial);
    return true;
  }

  absl::StatusOr<Trial> TryAndRemember(std::vector<int> set) {
    double limit_us = Limit();
    ASYRA_ASSIGN_OR_RETURN(Trial trial, Try(std::move(set)));
    known_[trial.set] = {trial.found, trial.found.steps, limit_us};
    return trial;
  }

  // Returns whether the set is worse by an earlier trial, which looked as far.
  bool IsKnownWorse(const std::vector<int>& set) {
    auto known = known_.find(set);
    if (known == known_.end() || known->second.limit_us < Limit() ||
        known->second.found.BetterThan(at_.best.found)) {
      return false;
    }
    at_.steps += known->second.steps;
    return true;
  }

  // Returns the makespan above which a set is of no value.
  double Limit() const {
    return at_.best.found.fits ? at_.best.found.makespan_us
                               : std::numeric_limits<double>::infinity();
  }

  // Tries sets with all merged except a stretch of the program, the only part
  // that stays tiled. To hide a collective, lanes must be separate from before
  // it until after it, so that single candidates say little. Stretches may wrap
  // around the end of a layer. Joins are kept.
  void TryWindows(int windows) {
    if (windows <= 0) return;
    std::vector<int> joins;
    for (int c : at_.best.set) {
      if (candidates_[c].join) joins.push_back(c);
    }
    int step = std::max(1, tiles_ * tiles_ / windows);
    int tried = 0;
    for (int length = 1; length < tiles_; ++length) {
      for (int begin = 0; begin < tiles_; ++begin) {
        if (tried++ % step != 0) continue;
        std::vector<int> set;
        for (int c = 0; c < tiles_; ++c) {
          if ((c - begin + tiles_) % tiles_ >= length) set.push_back(c);
        }
        set.insert(set.end(), joins.begin(), joins.end());
        TrySet(std::move(set));
      }
    }
  }

  // Also tries the best single candidate; then removes or adds each candidate,
  // the most valuable first, as long as that helps. A candidate that joins the
  // same collectives as others replaces them.
  void Repair() {
    if (!at_.alone.set.empty() && at_.alone.found.BetterThan(at_.best.found)) {
      at_.best = std::move(at_.alone);
    }
    for (int c : ByValue(values_)) {
      std::vector<int> set = at_.best.set;
      if (Has(c)) {
        std::erase(set, c);
      } else {
        std::erase_if(set, [&](int other) { return Overlap(c, other); });
        set.push_back(c);
        std::sort(set.begin(), set.end());
      }
      if (TrySet(std::move(set)) && !Has(c)) {
        at_.why[c] = "does not help beside the others";
      }
    }
  }

  TileMerger merger_;
  const CostModel& costs_;
  const BucketOptions options_;
  std::vector<BucketCandidate> candidates_;
  int tiles_ = 0;               // how many of them, the first, merge tiles
  std::vector<double> values_;  // by candidate, alone: us saved,
  std::vector<int64_t> bytes_;  // and memory that it takes
  std::optional<State> alone_tried_;
  State at_;
  // The result of a set that was tried, within the limit.
  struct Known {
    Merit found;
    int steps = 0;
    double limit_us = 0;
  };
  std::map<std::vector<int>, Known> known_;
};

TileBucketing::TileBucketing(const Program& program, const CostModel& costs,
                             const BucketOptions& options)
    : program_(std::make_unique<const Program>(program)),
      bucketer_(std::make_unique<Bucketer>(*program_, costs, options)) {}
TileBucketing::~TileBucketing() = default;

absl::StatusOr<BucketResult> TileBucketing::Run(int windows) {
  return bucketer_->Run(windows);
}

std::vector<int> BestSet(absl::Span<const double> values,
                         absl::Span<const int64_t> costs, int64_t budget) {
  constexpr int kUnits = 256;
  double unit = std::max(1.0, static_cast<double>(budget) / kUnits);
  // By units spent, the highest value, and the last item taken to reach it.
  std::vector<double> most(kUnits + 1, 0);
  std::vector<std::vector<bool>> taken(values.size(),
                                       std::vector<bool>(kUnits + 1, false));
  std::vector<int> units(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    double needs = std::ceil(static_cast<double>(costs[i]) / unit);
    if (values[i] <= 0 || needs > kUnits) continue;
    units[i] = static_cast<int>(needs);
    for (int u = kUnits; u >= units[i]; --u) {
      double with = most[u - units[i]] + values[i];
      if (with <= most[u]) continue;
      most[u] = with;
      taken[i][u] = true;
    }
  }
  std::vector<int> set;
  int left = kUnits;
  for (size_t i = values.size(); i-- > 0;) {
    if (!taken[i][left]) continue;
    set.push_back(static_cast<int>(i));
    left -= units[i];
  }
  std::reverse(set.begin(), set.end());
  return set;
}

absl::StatusOr<BucketResult> BucketTiles(const Program& program,
                                         const CostModel& costs,
                                         const BucketOptions& options) {
  return TileBucketing(program, costs, options).Run(options.windows);
}

absl::StatusOr<bool> Bucket(Program& program, const PassOptions& options,
                            PassContext& context) {
  if (context.costs == nullptr)
    return Invalid("needs costs: there are none in PassContext::costs");
  BucketOptions bucket;
  const Machine& machine = context.costs->machine();
  ASYRA_ASSIGN_OR_RETURN(int64_t capacity,
                         ReadCapacity(options.Float("memory_gib"), machine));
  bucket.memory_bytes = ValueBytes(capacity, program, machine);
  ASYRA_ASSIGN_OR_RETURN(bucket.steps, IntOption(options, "steps"));
  bucket.join = options.Bool("join");
  ASYRA_ASSIGN_OR_RETURN(BucketResult result,
                         BucketTiles(program, *context.costs, bucket));
  context.Remark("bucket: tiles merged at {} of {} points, {} saved",
                 result.merged, result.places, TimeText(result.saved_us));
  for (const std::string& joined : result.joined) {
    context.Remark("bucket: joined {}", joined);
  }
  for (const std::string& rejected : result.rejected) {
    context.Remark("bucket: {}", rejected);
  }
  if (!result.changed()) return false;
  program = std::move(result.program);
  return true;
}

}  // namespace asyra
