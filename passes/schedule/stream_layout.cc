#include "passes/schedule/stream_layout.h"

#include <algorithm>

#include "passes/schedule/second_stream.h"

namespace asyra {
namespace {

// Streams named after the links, for collectives that use some.
void Serialise(Program* program, absl::Span<const OpCost> op_costs) {
  for (size_t i = 0; i < program->ops.size(); ++i) {
    Op& op = program->ops[i];
    if (!op.is_collective()) continue;
    for (Resource link : {kNetwork, kLink}) {
      if (op_costs[i].load[link] <= 0) continue;
      op.stream = program->Stream(ToString(link));
      break;
    }
  }
}

std::vector<bool> ShortOps(const Program& program,
                           absl::Span<const OpCost> op_costs) {
  double longest_us = 0;
  for (size_t i = 0; i < op_costs.size(); ++i) {
    if (op_costs[i].is_compute && !program.ops[i].is_collective()) {
      longest_us = std::max(longest_us, op_costs[i].time_us);
    }
  }
  std::vector<bool> ops;
  for (const OpCost& cost : op_costs) {
    ops.push_back(cost.time_us < longest_us / 2);
  }
  return ops;
}

}  // namespace

std::string ToString(const StreamLayout& layout) {
  std::string text = layout.serialised ? ", collectives serialised" : "";
  if (layout.side == StreamLayout::kNoMatmuls)
    text += ", norms on a second compute stream";
  if (layout.side == StreamLayout::kShort)
    text += ", short ops on a second compute stream";
  return text;
}

std::vector<StreamLayout> OtherLayouts() {
  std::vector<StreamLayout> layouts;
  for (bool serialised : {false, true}) {
    for (StreamLayout::Side side :
         {StreamLayout::kNothing, StreamLayout::kNoMatmuls,
          StreamLayout::kShort}) {
      layouts.push_back({serialised, side});
    }
  }
  std::erase(layouts, StreamLayout());
  return layouts;
}

Program LayOut(const Program& program, const StreamLayout& layout,
               absl::Span<const OpCost> op_costs) {
  Program laid = program;
  if (layout.serialised) Serialise(&laid, op_costs);
  if (layout.side == StreamLayout::kNothing) return laid;
  std::vector<bool> light = layout.side == StreamLayout::kShort
                                ? ShortOps(laid, op_costs)
                                : OpsWithoutMatmuls(laid);
  return MoveToStream(laid, FindSideChains(laid, light), "compute2");
}

}  // namespace asyra
