#include "passes/bucket.h"

#include "ir/support/status.h"
#include "passes/lanes.h"
#include "passes/merge_tiles.h"
#include "passes/reorder.h"
#include "simulator/simulate.h"

namespace asyra {
namespace {

using Candidate = std::vector<TileGroup>;

bool Communicates(const Op& op) {
  return op.is_collective() || op.def->is_wait;
}

// A lane's ops in runs without communication.
std::vector<std::vector<int>> Runs(const Program& program, const Lanes& lanes,
                                   int lane) {
  std::vector<std::vector<int>> runs(1);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (lanes.of_op[i] != lane || program.ops[i].def->is_tile) continue;
    if (Communicates(program.ops[i])) {
      if (!runs.back().empty()) runs.emplace_back();
    } else {
      runs.back().push_back(static_cast<int>(i));
    }
  }
  if (runs.back().empty()) runs.pop_back();
  return runs;
}

bool Mergeable(const Program& program, const std::vector<int>& tile_dims,
               const TileGroup& group) {
  const Op& first = program.ops[group[0]];
  for (int index : group) {
    const Op& op = program.ops[index];
    if (op.def != first.def || !(op.attrs == first.attrs)) return false;
    for (size_t i = 0; i < op.results.size(); ++i) {
      if (program.type(op.results[i]) != program.type(first.results[i]) ||
          tile_dims[op.results[i]] < 0) {
        return false;
      }
    }
  }
  return true;
}

// Runs that all lanes have alike, in program order.
std::vector<Candidate> Candidates(const Program& program) {
  Lanes lanes(program);
  std::vector<int> tile_dims = TileDims(program, lanes);
  std::vector<std::vector<std::vector<int>>> runs;  // by lane
  for (int lane = 0; lane < lanes.count; ++lane) {
    runs.push_back(Runs(program, lanes, lane));
  }
  std::vector<Candidate> candidates;
  for (size_t r = 0; lanes.count > 1 && r < runs[0].size(); ++r) {
    Candidate candidate;
    for (size_t i = 0; i < runs[0][r].size(); ++i) {
      TileGroup group;
      for (const auto& of_lane : runs) {
        if (r < of_lane.size() && i < of_lane[r].size()) {
          group.push_back(of_lane[r][i]);
        }
      }
      if (static_cast<int>(group.size()) == lanes.count &&
          Mergeable(program, tile_dims, group)) {
        candidate.push_back(std::move(group));
      }
    }
    if (!candidate.empty()) candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace

absl::StatusOr<bool> Bucket(Program& program, const PassOptions& options,
                            PassContext& context) {
  if (context.costs == nullptr) {
    return Invalid("needs prices: give --machine");
  }
  double budget = options.Float("memory_gib") * (1 << 30);
  std::vector<Candidate> candidates = Candidates(program);
  SimResult best = Simulate(program, *context.costs);
  double before_us = best.makespan_us;
  std::vector<TileGroup> chosen;
  Program merged = program;
  size_t kept = 0;
  for (const Candidate& candidate : candidates) {
    std::vector<TileGroup> groups = chosen;
    groups.insert(groups.end(), candidate.begin(), candidate.end());
    absl::StatusOr<Program> trial = MergeTiles(program, groups);
    if (!trial.ok()) continue;
    SimResult result = Simulate(*trial, *context.costs);
    if (result.makespan_us >= best.makespan_us ||
        (budget > 0 && static_cast<double>(result.peak_bytes) > budget)) {
      continue;
    }
    best = result;
    chosen = std::move(groups);
    merged = *std::move(trial);
    ++kept;
  }
  context.Remark("bucket: {} of {} runs of equal tiles merged, {:.1f} us saved",
                 kept, candidates.size(), before_us - best.makespan_us);
  if (kept == 0) return false;
  program = std::move(merged);
  return true;
}

}  // namespace asyra
