#include "simulator/replay/replay.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "simulator/replay/replayer.h"

namespace asyra {
namespace {

// Adds up the ops, in order of issue.
void Count(const CostedProgram& costed, absl::Span<const int> order,
           SimResult* result) {
  for (int op : order) {
    const OpCost& cost = costed.op_costs()[op];
    if (cost.time_us == 0) continue;
    ++result->ops;
    result->collectives += costed.program().ops[op].is_collective();
    result->source_us[cost.source] += cost.time_us;
    for (int r = 0; r < kNumResources; ++r) {
      result->resource_us[r] += cost.load[r] * cost.time_us;
    }
  }
}

// From the last op to end back along what each waited for.
std::vector<int> CriticalPath(absl::Span<const OpSpan> spans) {
  std::vector<int> path;
  auto last = std::max_element(
      spans.begin(), spans.end(),
      [](const OpSpan& a, const OpSpan& b) { return a.end_us < b.end_us; });
  if (last == spans.end()) return path;
  for (int op = last->op; op >= 0; op = spans[op].after) path.push_back(op);
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace

std::string_view ToString(OpSpan::Cause cause) {
  constexpr std::string_view kNames[] = {"begin", "host", "stream",
                                         "communicator", "data"};
  return kNames[cause];
}

SimResult Replay(const CostedProgram& costed, absl::Span<const int> order,
                 const ReplayOptions& options) {
  const Program& program = costed.program();
  SimResult result = std::move(Replayer(costed).Run(order, options));
  if (result.makespan_us > options.limit_us) return result;
  Count(costed, order, &result);
  if (options.critical_path) result.critical_path = CriticalPath(result.spans);
  if (options.lower_bound) {
    result.bounds = LowerBoundsOf(program, costed.op_costs(),
                                  costed.dependencies(), options.contention);
    result.lower_bound_us = result.bounds.us();
  }
  if (options.memory) {
    MemoryProfile memory = ReplayMemory(costed, result.spans);
    result.peak_bytes = memory.peak_bytes;
    result.weight_bytes = memory.weight_bytes;
    result.memory = std::move(memory.points);
  }
  return result;
}

SimResult Replay(const CostedProgram& costed, const ReplayOptions& options) {
  std::vector<int> order(costed.program().ops.size());
  std::iota(order.begin(), order.end(), 0);
  return Replay(costed, order, options);
}

SimResult Replay(const Program& program, absl::Span<const OpCost> op_costs,
                 const ReplayOptions& options) {
  return Replay(CostedProgram(program, std::vector<OpCost>(op_costs.begin(),
                                                           op_costs.end())),
                options);
}

}  // namespace asyra
