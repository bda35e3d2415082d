#include "passes/schedule/transport/stream_layout.h"

#include <algorithm>
#include <iterator>

#include "absl/algorithm/container.h"
#include "fmt/ranges.h"
#include "ir/support/status.h"
#include "passes/schedule/transport/second_stream.h"

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

// By StreamLayout::Side.
constexpr std::string_view kSideNames[] = {"none", "no_matmuls", "short"};

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

absl::StatusOr<bool> LayOutStreamsPass(Program& program,
                                       const PassOptions& options,
                                       PassContext& context) {
  if (context.costs == nullptr)
    return Invalid("needs costs: there are none in PassContext::costs");
  StreamLayout layout{.serialised = options.Bool("serialise")};
  std::string side = options.Get<std::string>("second");
  const auto* name = absl::c_find(kSideNames, side);
  if (name == std::end(kSideNames)) {
    return Invalid("second is '{}', not one of {}", side,
                   fmt::join(kSideNames, ", "));
  }
  layout.side = static_cast<StreamLayout::Side>(name - kSideNames);
  Program laid =
      LayOut(program, layout, EstimateCosts(program, *context.costs));
  if (laid.streams == program.streams) {
    context.Remark("lay_out_streams: no op is for another stream");
    return false;
  }
  program = std::move(laid);
  return true;
}

PassRun PassOf(const StreamLayout& layout) {
  return MakePass("lay_out_streams",
                  {{"serialise", layout.serialised},
                   {"second", std::string(kSideNames[layout.side])}});
}

}  // namespace asyra
