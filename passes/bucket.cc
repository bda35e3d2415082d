#include "passes/bucket.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fmt/format.h"
#include "ir/support/status.h"
#include "passes/bucket_candidates.h"
#include "passes/merge_tiles.h"
#include "passes/reorder.h"

namespace asyra {
namespace {

constexpr int64_t kAnyCost = std::numeric_limits<int64_t>::max();

// A set of candidates merged, in the best order found.
struct Trial {
  std::vector<int> set;
  Program program;
  OrderSearchResult found;
};

class Bucketer {
 public:
  Bucketer(const Program& program, const CostModel& costs,
           const BucketOptions& options)
      : program_(program),
        costs_(costs),
        options_(options),
        candidates_(BucketCandidates(program)),
        why_(candidates_.size()) {}

  absl::StatusOr<BucketResult> Run() {
    ASYRA_ASSIGN_OR_RETURN(best_, Try({}));
    double before_us = best_.found.makespan_us;
    std::vector<double> values(candidates_.size(), 0);
    std::vector<int64_t> costs(candidates_.size(), 0);
    for (int c = 0; c < count(); ++c) Value(c, &values[c], &costs[c]);
    TrySet(BestSet(values, costs, Slack()));
    TryWindows();
    Repair(values);
    BucketResult result;
    result.saved_us = before_us - best_.found.makespan_us;
    for (int c = 0; c < count(); ++c) {
      result.places += candidates_[c].places;
      if (Has(c)) {
        result.merged += candidates_[c].places;
      } else {
        result.rejected.push_back(
            fmt::format("merging {}: {}", candidates_[c].name, why_[c]));
      }
    }
    result.set = std::move(best_.set);
    result.program = std::move(best_.program);
    ApplyOrder(result.program, best_.found.best.order);
    result.found = std::move(best_.found);
    result.steps = steps_;
    return result;
  }

 private:
  int count() const { return static_cast<int>(candidates_.size()); }
  bool Has(int c) const {
    return std::find(best_.set.begin(), best_.set.end(), c) != best_.set.end();
  }

  // Memory that there is beyond what the best so far takes.
  int64_t Slack() const {
    if (options_.memory_bytes == 0) return kAnyCost;
    return std::max<int64_t>(0, options_.memory_bytes - best_.found.peak_bytes);
  }

  absl::StatusOr<Trial> Try(std::vector<int> set) {
    Trial trial{std::move(set), {}, {}};
    ASYRA_ASSIGN_OR_RETURN(trial.program,
                           MergeCandidates(program_, candidates_, trial.set));
    trial.found = SearchOrder(
        PricedProgram(trial.program, costs_),
        {{"serial", SerialOrder(trial.program)}},
        {.steps = options_.steps, .memory_bytes = options_.memory_bytes});
    steps_ += trial.found.steps;
    return trial;
  }

  // Of one candidate alone; nothing where it cannot be.
  void Value(int c, double* value, int64_t* cost) {
    absl::StatusOr<Trial> trial = Try({c});
    if (!trial.ok()) {
      why_[c] = MessageOf(trial.status());
      return;
    }
    *value = best_.found.makespan_us - trial->found.makespan_us;
    *cost =
        std::max<int64_t>(0, trial->found.peak_bytes - best_.found.peak_bytes);
    why_[c] = trial->found.fits ? fmt::format("{:+.1f} us", -*value)
                                : "over the memory budget";
    if (!trial->found.fits && best_.found.fits) *value = 0;
    if (alone_.set.empty() || trial->found.BetterThan(alone_.found)) {
      alone_ = *std::move(trial);
    }
  }

  // Keeps the set when it is better than the best so far.
  bool TrySet(std::vector<int> set) {
    if (set.empty() || set == best_.set) return false;
    absl::StatusOr<Trial> trial = Try(std::move(set));
    if (!trial.ok() || !trial->found.BetterThan(best_.found)) return false;
    best_ = *std::move(trial);
    return true;
  }

  // All merged but a stretch of the program, which is then all that is tiled:
  // what hides a collective needs lanes that are apart from before it until
  // after it, so that single candidates tell little. Stretches may go round
  // the end of a layer.
  void TryWindows() {
    if (options_.windows <= 0) return;
    int step = std::max(1, count() * count() / options_.windows);
    int tried = 0;
    for (int length = 1; length < count(); ++length) {
      for (int begin = 0; begin < count(); ++begin) {
        if (tried++ % step != 0) continue;
        std::vector<int> set;
        for (int c = 0; c < count(); ++c) {
          if ((c - begin + count()) % count() >= length) set.push_back(c);
        }
        TrySet(std::move(set));
      }
    }
  }

  // The best single one is a set too; then each candidate is taken out, or
  // added, the most valuable first, as long as that helps.
  void Repair(const std::vector<double>& values) {
    if (!alone_.set.empty() && alone_.found.BetterThan(best_.found)) {
      best_ = std::move(alone_);
    }
    std::vector<int> by_value(candidates_.size());
    std::iota(by_value.begin(), by_value.end(), 0);
    std::stable_sort(by_value.begin(), by_value.end(),
                     [&](int a, int b) { return values[a] > values[b]; });
    for (int c : by_value) {
      std::vector<int> set = best_.set;
      if (Has(c)) {
        std::erase(set, c);
      } else {
        set.push_back(c);
        std::sort(set.begin(), set.end());
      }
      if (TrySet(std::move(set)) && !Has(c)) {
        why_[c] = "does not help beside the others";
      }
    }
  }

  const Program& program_;
  const CostModel& costs_;
  const BucketOptions& options_;
  std::vector<BucketCandidate> candidates_;
  std::vector<std::string> why_;  // by candidate, if it is not merged
  Trial best_, alone_;
  int steps_ = 0;
};

}  // namespace

std::vector<int> BestSet(absl::Span<const double> values,
                         absl::Span<const int64_t> costs, int64_t budget) {
  constexpr int kUnits = 256;
  double unit = std::max(1.0, static_cast<double>(budget) / kUnits);
  // By units spent, the most value, and what was taken last to reach it.
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
  return Bucketer(program, costs, options).Run();
}

absl::StatusOr<bool> Bucket(Program& program, const PassOptions& options,
                            PassContext& context) {
  if (context.costs == nullptr) return Invalid("needs prices: give --machine");
  BucketOptions bucket;
  bucket.memory_bytes =
      static_cast<int64_t>(options.Float("memory_gib") * (1 << 30));
  bucket.steps = static_cast<int>(options.Int("steps"));
  ASYRA_ASSIGN_OR_RETURN(BucketResult result,
                         BucketTiles(program, *context.costs, bucket));
  context.Remark("bucket: {} of {} places merged, {:.1f} us saved",
                 result.merged, result.places, result.saved_us);
  for (const std::string& rejected : result.rejected) {
    context.Remark("bucket: {}", rejected);
  }
  if (result.merged == 0) return false;
  program = std::move(result.program);
  return true;
}

}  // namespace asyra
