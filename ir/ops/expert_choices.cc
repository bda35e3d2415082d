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

absl::Status RequireTypes(const OpCall& call, int operand,
                          const Type& expected) {
  const Type& type = call.operands[operand];
  if (type.dtype == expected.dtype && type.shape() == expected.shape()) {
    return absl::OkStatus();
  }
  return Invalid("{} are {}{}, they should be {}{}",
                 call.def.operands[operand].name, ToString(type.dtype),
                 ShapeToString(type.shape()), ToString(expected.dtype),
                 ShapeToString(expected.shape()));
}

absl::StatusOr<std::vector<Type>> InferCombined(const OpCall& call) {
  Type out = call.operands[1];
  out.dtype = call.operands[0].dtype;
  ASYRA_RETURN_IF_ERROR(RequireTypes(call, 2, out));
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
