#include "models/parts.h"

#include "fmt/format.h"
#include "ir/support/status.h"

namespace asyra {

std::vector<SizeField> SizeFields(DecoderSizes* sizes) {
  return {{"batch", &sizes->batch},   {"seq", &sizes->seq},
          {"layers", &sizes->layers}, {"hidden", &sizes->hidden},
          {"heads", &sizes->heads},   {"vocabulary", &sizes->vocabulary},
          {"logits", &sizes->logits}};
}

absl::Status SetSizes(const std::vector<SizeField>& fields,
                      const std::map<std::string, int64_t>& sizes,
                      std::string_view others) {
  for (const auto& [name, size] : sizes) {
    std::string known;
    bool found = false;
    for (const SizeField& field : fields) {
      if (field.name == name) {
        *field.size = size;
        found = true;
      }
      known += fmt::format("{}{}", known.empty() ? "" : ", ", field.name);
    }
    if (!found) return Invalid("no size {}, it has {}{}", name, known, others);
    bool may_be_0 = name == "capacity_percent" || name == "layers";
    if (size < (may_be_0 ? 0 : 1)) {
      return Invalid("{} is {}, it should be at least {}", name, size,
                     may_be_0 ? 0 : 1);
    }
    // Each is ops of its own: these compile in minutes.
    if (name == "layers" && size > kMostLayers) {
      return Invalid("layers is {}, it should be at most {}", size,
                     kMostLayers);
    }
  }
  return absl::OkStatus();
}

ValueId DecoderParts::WeightCalled(std::string_view name, const Shape& shape) {
  return builder_.Input(fmt::format("{}{}", prefix_, name),
                        Type(sizes_.dtype, shape), InputRole::kWeight);
}

ValueId DecoderParts::Weight(std::string_view name, const Shape& shape) {
  return WeightCalled(fmt::format("{}.weight", name), shape);
}

ValueId DecoderParts::Ids() {
  return builder_.Input("input_ids",
                        Type(DType::kI64, {sizes_.batch, sizes_.seq}));
}

absl::StatusOr<ValueId> DecoderParts::Add(std::string_view op,
                                          absl::Span<const ValueId> operands,
                                          std::string_view name,
                                          AttrMap attrs) {
  return builder_.AddOne(op, operands, std::move(attrs),
                         fmt::format("{}{}", prefix_, name));
}

absl::StatusOr<ValueId> DecoderParts::Linear(ValueId x, std::string_view name,
                                             int64_t out) {
  return Add("matmul",
             {x, Weight(name, {out, builder_.type(x).dims.back().size})}, name,
             {{"transpose_b", true}});
}

absl::StatusOr<ValueId> DecoderParts::RmsNorm(ValueId x, std::string_view name,
                                              double eps) {
  return Add("rms_norm", {x, Weight(name, {builder_.type(x).dims.back().size})},
             name, {{"eps", eps}});
}

absl::StatusOr<ValueId> DecoderParts::LastTokens(ValueId x) {
  if (sizes_.logits == 0 || sizes_.logits == sizes_.seq) return x;
  if (sizes_.logits > sizes_.seq) {
    return Invalid("logits of {} tokens, seq is {}", sizes_.logits, sizes_.seq);
  }
  return Add("slice", {x}, "last",
             {{"dim", int64_t{1}},
              {"start", sizes_.seq - sizes_.logits},
              {"stop", sizes_.seq}});
}

absl::StatusOr<ValueId> DecoderParts::SplitHeads(ValueId x,
                                                 std::string_view name,
                                                 int64_t heads) {
  int64_t size = builder_.type(x).dims.back().size / heads;
  return Add("reshape", {x}, fmt::format("{}.heads", name),
             {{"shape", Ints{sizes_.batch, sizes_.seq, heads, size}}});
}

absl::StatusOr<ValueId> DecoderParts::MergeHeads(ValueId x,
                                                 std::string_view name) {
  const Type& type = builder_.type(x);
  return Add(
      "reshape", {x}, fmt::format("{}.merged", name),
      {{"shape", Ints{sizes_.batch, sizes_.seq, type.size(2) * type.size(3)}}});
}

}  // namespace asyra
