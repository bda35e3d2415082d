#include "passes/fuse.h"

#include <algorithm>
#include <map>

#include "ir/body.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "passes/fusion_clusters.h"
#include "simulator/simulate.h"

namespace asyra {
namespace {

// Fusions that compute the same over the same types, as layers repeat.
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

// The program with these clusters as fusions.
Program WithFusions(const Program& program, const std::vector<Kind>& kinds) {
  DefUse def_use(program);
  std::vector<bool> is_gone(program.ops.size(), false);
  std::map<int, Op> fusions;  // by the op in whose place they stand
  for (const Kind& kind : kinds) {
    for (const FusionCluster& cluster : kind.clusters) {
      for (int op : cluster) is_gone[op] = true;
      fusions.emplace(cluster.back(), FusionOf(program, def_use, cluster));
    }
  }
  Program fused = program;
  fused.ops.clear();
  for (size_t i = 0; i < program.ops.size(); ++i) {
    auto fusion = fusions.find(static_cast<int>(i));
    if (fusion != fusions.end()) {
      fused.ops.push_back(std::move(fusion->second));
    } else if (!is_gone[i]) {
      fused.ops.push_back(program.ops[i]);
    }
  }
  fused.DropUnusedValues();
  return fused;
}

// Kinds that make the program faster, each on top of those before it.
std::vector<Kind> KindsThatPay(const Program& program, std::vector<Kind> kinds,
                               PassContext& context) {
  SimResult best = Simulate(program, *context.costs);
  std::vector<Kind> chosen;
  for (Kind& kind : kinds) {
    chosen.push_back(kind);
    SimResult trial = Simulate(WithFusions(program, chosen), *context.costs);
    if (trial.makespan_us < best.makespan_us &&
        trial.peak_bytes <= best.peak_bytes) {
      best = std::move(trial);
      continue;
    }
    chosen.pop_back();
    if (trial.peak_bytes > best.peak_bytes) {
      context.Remark("fuse: {} left out, the peak of {} bytes would be {}",
                     kind.label, best.peak_bytes, trial.peak_bytes);
    } else {
      context.Remark("fuse: {} left out, {:.1f} us would be {:.1f}", kind.label,
                     best.makespan_us, trial.makespan_us);
    }
  }
  return chosen;
}

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
  std::vector<Kind> kinds = KindsOf(
      program, FindClusters(program, context.costs,
                            {.most_ops = static_cast<int>(most),
                             .measured_only = options.Bool("measured_only")}));
  if (kinds.empty()) {
    context.Remark("fuse: no ops that one kernel would compute for less");
    return false;
  }
  if (context.costs != nullptr) {
    kinds = KindsThatPay(program, std::move(kinds), context);
  }
  if (kinds.empty()) return false;
  size_t before = program.ops.size();
  program = WithFusions(program, kinds);
  context.Remark("fuse: {} ops where there were {}: {}", program.ops.size(),
                 before, Summary(kinds));
  return true;
}

}  // namespace asyra
