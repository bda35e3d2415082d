// Lengths of the rows of a mask, checked.
#include "ir/ops/mask_lengths.h"

#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

absl::StatusOr<std::vector<Type>> InferLengths(const OpCall& call) {
  const Type& mask = call.operands[0];
  if (mask.rank() != 2) {
    return Invalid("the mask is {}, it should have rank 2", ToString(mask, {}));
  }
  const int64_t least = call.attrs.Int("least");
  if (least < 0 || least > mask.size(1)) {
    return Invalid("least is {}, rows have {} elements", least, mask.size(1));
  }
  return std::vector<Type>{Type(DType::kI32, {mask.size(0)})};
}

// No device can judge a part of a row.
absl::StatusOr<AxisRule> LengthsAxes(const OpCall& call) {
  return ParseAxisRule("@b !t -> b", call.operands, call.results);
}

absl::Status LengthsReference(const RefCall& call) {
  const std::vector<double> mask = call.operands[0].ToDoubles();
  const int64_t rows = call.operands[0].size(0),
                size = call.operands[0].size(1);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t length = 0;
    std::optional<MaskFault> fault = FindMaskFault(
        size, call.attrs.Int("least"),
        [&](int64_t i) { return mask[row * size + i]; }, &length);
    if (fault.has_value()) {
      return MaskFaultError(call.attrs.Get<std::string>("input"),
                            call.Start(0, 0) + row, *fault);
    }
    call.results[0].SetInt(row, length);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MaskFaultError(const std::string& input, int64_t row,
                            const MaskFault& fault) {
  std::string what =
      fault.value == 1
          ? fmt::format("has a 1 at place {}, behind a 0", fault.place)
      : fault.value == 0
          ? fmt::format("has a 0 at place {}, where it must have a 1",
                        fault.place)
          : fmt::format("has {:g} at place {}", fault.value, fault.place);
  return Invalid(
      "row {} of input {} {}: with --padding right each row is ones, then "
      "zeros{}; --padding any takes other masks",
      row, input, what, fault.value == 0 ? ", and sees a key" : "");
}

std::vector<OpDef> MaskLengthsOps() {
  return {{.name = "mask_lengths",
           .summary = "the number of ones in each row of a mask [B, T]; an "
                      "error where a row is not ones, then zeros, or has fewer "
                      "than `least` ones",
           .operands = {{"mask"}},
           .attrs = {{"input", AttrKind::kString,
                      "name of the program's input that errors name"},
                     {"least", AttrKind::kInt, "ones that a row must have",
                      int64_t{0}}},
           .infer = InferLengths,
           .axes = LengthsAxes,
           .reference = LengthsReference,
           .samples = {{"mask_lengths(i64[4,6]) {input=\"m\", least=1}", 1, 1},
                       {"mask_lengths(bool[4,6]) {input=\"m\"}", 0, 0},
                       {"mask_lengths(f32[6,4]) {input=\"m\", least=4}", 1, 1},
                       {"mask_lengths(bf16[2,300]) {input=\"m\"}", 1, 1}}}};
}

}  // namespace asyra::ops
