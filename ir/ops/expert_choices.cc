#include "ir/ops/expert_choices.h"

#include "ir/ops/infer.h"

namespace asyra::ops {

absl::Status RequireGroups(const OpCall& call, int64_t tokens) {
  int64_t group_size = call.attrs.Int("group_size");
  if (group_size >= 1 && tokens % group_size == 0) return absl::OkStatus();
  return Invalid("group_size is {}, it does not divide {} tokens", group_size,
                 tokens);
}

absl::StatusOr<std::vector<Type>> InferCollected(const OpCall& call) {
  Type out = call.operands[1];
  out.dtype = call.operands[0].dtype;
  out.dims.push_back(call.operands[0].dims.back());
  return std::vector<Type>{out};
}

absl::Status RequireWeights(const OpCall& call, const Type& expected) {
  const Type& weights = call.operands[2];
  if (weights.dtype == expected.dtype && weights.shape() == expected.shape()) {
    return absl::OkStatus();
  }
  return Invalid("weights are {}{}, they should be {}{}",
                 ToString(weights.dtype), ShapeToString(weights.shape()),
                 ToString(expected.dtype), ShapeToString(expected.shape()));
}

absl::StatusOr<std::vector<Type>> InferCombined(const OpCall& call) {
  Type out = call.operands[1];
  out.dtype = call.operands[0].dtype;
  ASYRA_RETURN_IF_ERROR(RequireWeights(call, out));
  out.dims.back() = call.operands[0].dims.back();
  return std::vector<Type>{out};
}

absl::StatusOr<AxisRule> CollectRule(const OpCall& call,
                                     std::string_view rows) {
  bool combine = call.operands.size() == 3;
  std::string tokens =
      fmt::format("... (g !s={})", call.attrs.Int("group_size"));
  std::string choices = tokens + " !k";
  return ParseAxisRule(
      fmt::format("... {} h, {}{} -> {} h", rows, choices,
                  combine ? ", " + choices : "", combine ? tokens : choices),
      call.operands, call.results, Linearity::kFirst);
}

}  // namespace asyra::ops
