#include "passes/search/recompute_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"
#include "passes/analysis/shorten.h"
#include "passes/schedule/memory/recompute.h"
#include "passes/schedule/tile/bucket.h"
#include "passes/search/candidate.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/bound.h"
#include "simulator/replay/costed_program.h"
#include "simulator/replay/library_memory.h"
#include "simulator/replay/memory.h"

namespace asyra {
namespace {

// Layers of the short program, as in the schedule search.
constexpr int kLayers = 4;
// Layers of the program that it is cut from; more than these, so that both have
// equal layers.
constexpr int kFewerLayers = 2 * kLayers;
// Orders that are simulated for a estimate.
constexpr int kStepEstimates = 12;
// The share of the bytes that are not resident for gaps between values in the
// arena.
constexpr double kGaps = 0.05;
// Classes that are tried, the largest, and what these take at least; the others
// are kept.
constexpr size_t kMostClasses = 24;
constexpr int64_t kLeastBytes = 64 << 10;
// The least loss of a class, so that it is still better kept if it costs
// nothing by the estimate.
constexpr double kLeastLossUs = 0.01;

// Returns the number of classes, the first, that are tried.
int CountTried(const Stash& stash) {
  size_t count = 0;
  while (count < std::min(kMostClasses, stash.classes().size()) &&
         stash.classes()[count].bytes >= kLeastBytes) {
    ++count;
  }
  return static_cast<int>(count);
}

}  // namespace

double RecomputeReport::Hidden() const {
  double again_us = dropped.ops_us - kept.ops_us;
  if (again_us <= 0) return 0;
  double lost_us = dropped.expected_us() - kept.expected_us();
  return std::clamp(1 - lost_us / again_us, 0.0, 1.0);
}

RecomputeSearch::RecomputeSearch(Program program, const Pipeline& fuse,
                                 PassContext context)
    : program_(std::move(program)),
      fuse_(fuse),
      context_(std::move(context)),
      stash_(program_),
      fewer_layers_(Shorten(program_, kFewerLayers)),
      fewer_stash_(fewer_layers_),
      cut_share_(CutShare()),
      count_(CountTried(stash_)),
      resident_bytes_(ResidentBytes(program_)) {}

absl::StatusOr<RecomputeChoice> RecomputeSearch::Without(
    const std::string& names) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> asked,
                         ReadStashNames(names, stash_));
  ClassSet dropped;
  for (size_t c = 0; c < stash_.classes().size(); ++c) {
    if (absl::c_linear_search(asked, stash_.classes()[c].name)) {
      dropped.insert(static_cast<int>(c));
    }
  }
  return ChoiceOf(dropped);
}

absl::StatusOr<std::optional<RecomputeChoice>> RecomputeSearch::Fit(
    int64_t capacity_bytes) {
  if (capacity_bytes == 0 || count_ == 0) return std::nullopt;
  values_bytes_ = BytesForValues(capacity_bytes);
  ASYRA_ASSIGN_OR_RETURN(StepEstimate kept, Estimate({}));
  if (Fits(kept)) return std::nullopt;
  ASYRA_RETURN_IF_ERROR(ValueEach());
  ASYRA_ASSIGN_OR_RETURN(ClassSet dropped, DropByKnapsack());
  ASYRA_RETURN_IF_ERROR(DropUntilItFits(&dropped));
  ASYRA_RETURN_IF_ERROR(KeepWhatCan(&dropped));
  ASYRA_ASSIGN_OR_RETURN(RecomputeChoice choice, ChoiceOf(dropped));
  return choice;
}

absl::StatusOr<int64_t> RecomputeSearch::MissingBytes(int64_t capacity_bytes) {
  ASYRA_ASSIGN_OR_RETURN(StepEstimate kept, Estimate({}));
  return kept.device_bytes - resident_bytes_ - BytesForValues(capacity_bytes);
}

int64_t RecomputeSearch::BytesForValues(int64_t capacity_bytes) const {
  return static_cast<int64_t>(
      static_cast<double>(capacity_bytes - resident_bytes_) / (1 + kGaps));
}

bool RecomputeSearch::Fits(const StepEstimate& estimate) const {
  return estimate.device_bytes - resident_bytes_ <= values_bytes_;
}

// Layers are equal, and so are their bytes.
double RecomputeSearch::CutShare() const {
  int64_t of_whole = 0, of_fewer = 0;
  Shorten(program_, kLayers, &of_whole);
  Shorten(fewer_layers_, kLayers, &of_fewer);
  return of_fewer == 0
             ? 1
             : static_cast<double>(of_whole) / static_cast<double>(of_fewer);
}

std::set<int> RecomputeSearch::OpsOf(const ClassSet& classes,
                                     const Stash& stash) const {
  std::vector<std::string> names;
  for (int c : classes) names.push_back(stash_.classes()[c].name);
  return OpsOfClasses(stash, names);
}

absl::StatusOr<Program> RecomputeSearch::Drop(const ClassSet& classes,
                                              const Program& program,
                                              const Stash& stash) const {
  if (classes.empty()) return program;
  return RecomputeOps(program, stash, OpsOf(classes, stash));
}

// Estimates a step of few layers.
absl::StatusOr<StepEstimate> RecomputeSearch::Estimate(
    const ClassSet& dropped) {
  auto known = estimates_.find(dropped);
  if (known != estimates_.end()) return known->second;
  ASYRA_ASSIGN_OR_RETURN(Program program,
                         Drop(dropped, fewer_layers_, fewer_stash_));
  int64_t cut_bytes = 0;
  program = Shorten(program, kLayers, &cut_bytes);
  cut_bytes = static_cast<int64_t>(cut_share_ * static_cast<double>(cut_bytes));
  ASYRA_ASSIGN_OR_RETURN(StepEstimate estimate,
                         EstimateOf(std::move(program), cut_bytes));
  estimates_[dropped] = estimate;
  return estimate;
}

absl::StatusOr<StepEstimate> RecomputeSearch::EstimateOf(
    Program program, int64_t cut_bytes) const {
  PassContext own = context_;
  own.progress = nullptr;
  ASYRA_RETURN_IF_ERROR(RunPasses(program, fuse_, own));
  StepEstimate estimate;
  for (const OpCost& cost : EstimateCosts(program, *context_.costs)) {
    estimate.ops_us += cost.time_us;
  }
  for (bool early : {false, true}) {
    CandidatePlan plan = PlanOf("estimate", {.early = early});
    // Most schedules use copy engines where they can; without, collectives wait
    // for SMs.
    if (early) plan.attributes.push_back(MakePass("use_copy_engines"));
    ASYRA_ASSIGN_OR_RETURN(
        Candidate candidate,
        MakeCandidate(program, plan, {.steps = kStepEstimates}, own, {},
                      cut_bytes));
    if (early) {
      CostedProgram costed(candidate.program, *context_.costs);
      estimate.makespan_us = candidate.found.makespan_us;
      estimate.bound_us = LowerBoundsOf(candidate.program, costed.op_costs(),
                                        costed.dependencies(), true)
                              .us();
      continue;
    }
    const Machine& machine = context_.costs->machine();
    estimate.device_bytes = candidate.found.peak_bytes + cut_bytes +
                            LibraryBytes(candidate.program, machine) +
                            WorkspaceBytes(candidate.program, machine);
  }
  return estimate;
}

// Returns the choice for the whole program.
absl::StatusOr<RecomputeChoice> RecomputeSearch::ChoiceOf(
    const ClassSet& dropped) {
  RecomputeChoice choice;
  RecomputeReport& report = choice.report;
  for (int c : dropped) report.values.push_back(stash_.classes()[c].name);
  report.count = static_cast<int>(OpsOf(dropped, stash_).size());
  ASYRA_ASSIGN_OR_RETURN(choice.program, Drop(dropped, program_, stash_));
  ASYRA_ASSIGN_OR_RETURN(report.kept, WholeEstimate({}, program_));
  ASYRA_ASSIGN_OR_RETURN(report.dropped,
                         WholeEstimate(dropped, choice.program));
  return choice;
}

absl::StatusOr<StepEstimate> RecomputeSearch::WholeEstimate(
    const ClassSet& dropped, const Program& program) {
  auto known = whole_.find(dropped);
  if (known != whole_.end()) return known->second;
  ASYRA_ASSIGN_OR_RETURN(StepEstimate estimate, EstimateOf(program, 0));
  whole_[dropped] = estimate;
  return estimate;
}

// Estimates what each class alone loses and saves.
absl::Status RecomputeSearch::ValueEach() {
  if (!lost_us_.empty()) return absl::OkStatus();
  ASYRA_ASSIGN_OR_RETURN(StepEstimate kept, Estimate({}));
  for (int c = 0; c < count_; ++c) {
    ASYRA_ASSIGN_OR_RETURN(StepEstimate one, Estimate({c}));
    // The estimate has kLayers of its ops, if there is one in each layer.
    auto ops = static_cast<double>(stash_.classes()[c].ops.size());
    double layers = std::max(1.0, ops / kLayers);
    double lost_us = std::max(0.0, one.expected_us() - kept.expected_us());
    lost_us_.push_back(layers * lost_us + kLeastLossUs);
    saved_bytes_.push_back(
        std::max<int64_t>(0, kept.device_bytes - one.device_bytes));
  }
  return absl::OkStatus();
}

// Returns all classes but those that are worth most to keep in what is left
// when nothing is.
absl::StatusOr<RecomputeSearch::ClassSet> RecomputeSearch::DropByKnapsack() {
  ClassSet dropped;
  for (int c = 0; c < count_; ++c) {
    if (saved_bytes_[c] > 0) dropped.insert(c);
  }
  ASYRA_ASSIGN_OR_RETURN(StepEstimate least, Estimate(dropped));
  int64_t left = values_bytes_ - (least.device_bytes - resident_bytes_);
  if (left <= 0) return dropped;
  for (int c : BestSet(lost_us_, saved_bytes_, left)) dropped.erase(c);
  return dropped;
}

// Classes by loss for each byte, the least first.
std::vector<int> RecomputeSearch::ByLoss() const {
  std::vector<int> classes(count_);
  std::iota(classes.begin(), classes.end(), 0);
  auto rate = [&](int c) {
    return lost_us_[c] / static_cast<double>(1 + saved_bytes_[c]);
  };
  absl::c_stable_sort(classes, [&](int a, int b) { return rate(a) < rate(b); });
  return classes;
}

absl::Status RecomputeSearch::DropUntilItFits(ClassSet* dropped) {
  for (int c : ByLoss()) {
    ASYRA_ASSIGN_OR_RETURN(StepEstimate estimate, Estimate(*dropped));
    if (Fits(estimate)) break;
    dropped->insert(c);
  }
  return absl::OkStatus();
}

// Keeps again what costs most, as long as it fits and is not slower. Classes
// that others are computed from may save nothing alone.
absl::Status RecomputeSearch::KeepWhatCan(ClassSet* dropped) {
  ASYRA_ASSIGN_OR_RETURN(StepEstimate best, Estimate(*dropped));
  std::vector<int> classes = ByLoss();
  for (auto c = classes.rbegin(); c != classes.rend(); ++c) {
    if (!dropped->contains(*c)) continue;
    ClassSet fewer = *dropped;
    fewer.erase(*c);
    ASYRA_ASSIGN_OR_RETURN(StepEstimate estimate, Estimate(fewer));
    if (Fits(best) && !Fits(estimate)) continue;
    if (Fits(best) ? estimate.expected_us() > best.expected_us()
                   : estimate.device_bytes > best.device_bytes) {
      continue;
    }
    *dropped = std::move(fewer);
    best = estimate;
  }
  return absl::OkStatus();
}

}  // namespace asyra
