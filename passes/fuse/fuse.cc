#include "passes/fuse/fuse.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "ir/body.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "passes/fuse/epilogue_clusters.h"
#include "passes/fuse/fusion_clusters.h"
#include "passes/fuse/norm_residuals.h"
#include "simulator/replay/simulate.h"

namespace asyra {
namespace {

// Fusions of one kind: the same ops over the same types, as in repeated layers.
struct Kind {
  std::string label;  // "fusion(add+rms_norm)"
  std::vector<FusionCluster> clusters;
};

std::vector<Kind> KindsOf(const Program& program,
                          const std::vector<FusionCluster>& clusters) {
  DefUse def_use(program);
  std::vector<Kind> kinds;
  std::map<std::string, size_t> known;
  for (const FusionCluster& cluster : clusters) {
    Op fusion = FusionOf(program, def_use, cluster);
    std::string key = ToString(program.OperandTypes(fusion), program.mesh) +
                      AttrsToString(*fusion.def, fusion.attrs,
                                    program.OperandTypes(fusion), program.mesh);
    auto [at, is_new] = known.emplace(std::move(key), kinds.size());
    if (is_new) kinds.push_back({OpLabel(*fusion.def, fusion.attrs), {}});
    kinds[at->second].clusters.push_back(cluster);
  }
  return kinds;
}

// Returns the program with these clusters as fusions.
Program WithFusions(const Program& program, const std::vector<Kind>& kinds) {
  DefUse def_use(program);
  std::vector<bool> is_gone(program.ops.size(), false);
  std::map<int, Op> fusions;  // by the op in whose place they are
  for (const Kind& kind : kinds) {
    for (const FusionCluster& cluster : kind.clusters) {
      for (int op : cluster) is_gone[op] = true;
      fusions.emplace(cluster.back(), FusionOf(program, def_use, cluster));
    }
  }
  Program fused = program;
  size_t kept = 0;
  for (size_t i = 0; i < fused.ops.size(); ++i) {
    auto fusion = fusions.find(static_cast<int>(i));
    if (fusion != fusions.end()) {
      fused.ops[kept++] = std::move(fusion->second);
    } else if (!is_gone[i]) {
      if (kept != i) fused.ops[kept] = std::move(fused.ops[i]);
      ++kept;
    }
  }
  fused.ops.resize(kept);
  fused.DropUnusedValues();
  return fused;
}

void RemarkLeftOut(const Kind& kind, const SimResult& best,
                   const SimResult& trial, PassContext& context) {
  if (trial.peak_bytes > best.peak_bytes) {
    context.Remark("fuse: {} left out, the peak of {} would be {}", kind.label,
                   BytesText(best.peak_bytes), BytesText(trial.peak_bytes));
  } else {
    context.Remark("fuse: {} left out, {} would be {}", kind.label,
                   TimeText(best.makespan_us), TimeText(trial.makespan_us));
  }
}

// Kinds that make the program faster, each in addition to the earlier ones.
std::vector<Kind> KindsThatPay(const Program& program,
                               const std::vector<Kind>& kinds,
                               PassContext& context) {
  SimResult best = Simulate(program, *context.costs);
  std::vector<Kind> chosen;
  for (const Kind& kind : kinds) {
    chosen.push_back(kind);
    SimResult trial = Simulate(WithFusions(program, chosen), *context.costs);
    if (trial.makespan_us < best.makespan_us &&
        trial.peak_bytes <= best.peak_bytes) {
      best = std::move(trial);
      continue;
    }
    chosen.pop_back();
    RemarkLeftOut(kind, best, trial, context);
  }
  return chosen;
}

struct Fused {
  Program program;
  std::vector<Kind> kinds;
};

// Rows and elements.
Fused FuseRows(Program program, const ClusterOptions& options,
               PassContext& context) {
  std::vector<Kind> kinds =
      KindsOf(program, FindClusters(program, context.costs, options));
  if (context.costs != nullptr) {
    kinds = KindsThatPay(program, kinds, context);
  }
  if (!kinds.empty()) program = WithFusions(program, kinds);
  return {std::move(program), std::move(kinds)};
}

// The least gain of an epilogue, relative to the matmul's time: a row fusion
// after it can add the bias as well, and a smaller gain is within the noise.
constexpr double kWorthIt = 0.01;

// Matmuls with epilogues.
class MatmulFuser {
 public:
  MatmulFuser(const Program& program, const ClusterOptions& rows,
              PassContext& context)
      : program_(program), def_use_(program), rows_(rows), context_(context) {}

  Fused Run(bool measured_only) && {
    std::vector<Kind> kinds =
        KindsOf(program_, FindEpilogues(program_, rows_.most_ops));
    if (context_.costs == nullptr) {
      // No measurements are available.
      if (!measured_only) chosen_ = std::move(kinds);
    } else {
      for (Kind& kind : kinds) Choose(std::move(kind), measured_only);
    }
    if (chosen_.empty()) return {program_, {}};
    return {WithFusions(program_, chosen_), std::move(chosen_)};
  }

 private:
  // Applies the kind if that pays, or with a shorter epilogue.
  void Choose(Kind kind, bool measured_only) {
    while (kind.clusters[0].size() > 1) {
      Op fusion = FusionOf(program_, def_use_, kind.clusters[0]);
      OpCost cost = context_.costs->Cost(OpUse(program_, fusion));
      bool is_measured = cost.source <= OpCost::kInterpolated;
      double all_us = cost.time_us * static_cast<double>(kind.clusters.size());
      if ((is_measured || !measured_only) && Gains(kWorthIt * all_us, kind)) {
        return;
      }
      for (FusionCluster& cluster : kind.clusters) cluster.pop_back();
      kind = std::move(KindsOf(program_, kind.clusters)[0]);
    }
  }

  // An epilogue may take the first op from a row fusion, so programs are
  // compared with row fusions applied.
  bool Gains(double least_us, const Kind& kind) {
    if (!best_.has_value()) best_ = AfterRows(program_);
    chosen_.push_back(kind);
    SimResult trial = AfterRows(WithFusions(program_, chosen_));
    if (trial.makespan_us < best_->makespan_us - least_us &&
        trial.peak_bytes <= best_->peak_bytes) {
      best_ = std::move(trial);
      return true;
    }
    chosen_.pop_back();
    RemarkLeftOut(kind, *best_, trial, context_);
    return false;
  }

  SimResult AfterRows(const Program& program) const {
    PassContext quiet;
    quiet.costs = context_.costs;
    return Simulate(FuseRows(program, rows_, quiet).program, *quiet.costs);
  }

  const Program& program_;
  DefUse def_use_;
  const ClusterOptions& rows_;
  PassContext& context_;
  std::vector<Kind> chosen_;
  std::optional<SimResult> best_;  // of the program with those
};

std::string Summary(const std::vector<Kind>& kinds) {
  std::map<std::string, size_t> count;
  for (const Kind& kind : kinds) count[kind.label] += kind.clusters.size();
  std::string text;
  for (const auto& [label, times] : count) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", times, label);
  }
  return text;
}

}  // namespace

absl::StatusOr<bool> Fuse(Program& program, const PassOptions& options,
                          PassContext& context) {
  int64_t most = options.Int("max_ops");
  if (most < 2 || most > 64) {
    return Invalid("max_ops is {}, it should be between 2 and 64", most);
  }
  const auto& epilogues = options.Get<std::string>("epilogues");
  if (epilogues != "measured" && epilogues != "estimated" &&
      epilogues != "none") {
    return Invalid("epilogues is {}, it should be measured, estimated or none",
                   epilogues);
  }
  ClusterOptions rows = {.most_ops = static_cast<int>(most),
                         .measured_only = options.Bool("measured_only")};
  int residuals = FuseNormResiduals(&program);
  if (residuals > 0) {
    context.Remark("fuse: {} gradients of norms add a residual's", residuals);
  }
  Fused fused = {program, {}};
  if (epilogues != "none") {
    bool measured_only = epilogues == "measured" || rows.measured_only;
    fused = MatmulFuser(program, rows, context).Run(measured_only);
  }
  std::vector<Kind> kinds = std::move(fused.kinds);
  fused = FuseRows(std::move(fused.program), rows, context);
  std::move(fused.kinds.begin(), fused.kinds.end(), std::back_inserter(kinds));
  if (kinds.empty()) {
    context.Remark("fuse: no ops that one kernel would compute for less");
    return residuals > 0;
  }
  context.Remark("fuse: {} ops where there were {}: {}",
                 fused.program.ops.size(), program.ops.size(), Summary(kinds));
  program = std::move(fused.program);
  return true;
}

}  // namespace asyra
