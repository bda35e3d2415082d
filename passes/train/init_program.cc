#include "passes/train/init_program.h"

#include <optional>

#include "ir/builder.h"
#include "ir/support/hash.h"
#include "ir/support/status.h"
#include "passes/train/parameters.h"
#include "passes/train/wide_type.h"

namespace asyra {
namespace {

constexpr double kDeviation = 0.02;

class InitBuilder {
 public:
  InitBuilder() { seed_ = builder_.Input(kSeed, Type(DType::kI64, {1})); }

  absl::Status Add(const std::string& name, const Type& type, Shape stored,
                   ParameterUse use) {
    if (stored.empty()) stored = type.shape();
    DType dtype = WideType(type.dtype);
    ASYRA_ASSIGN_OR_RETURN(
        ValueId value,
        use == ParameterUse::kMatrix
            ? Normal(name, dtype, stored)
            : Filled(use == ParameterUse::kScale, dtype, stored));
    ASYRA_ASSIGN_OR_RETURN(value, Padded(value, type.shape()));
    names_.emplace_back(value, name);
    return absl::OkStatus();
  }

  Program Finish() && {
    for (const auto& [value, name] : names_) {
      builder_.Output(value, kNoValue, name);
    }
    Program program = std::move(builder_).Finish();
    program.name = "init";
    // Pins find them by their names.
    for (const auto& [value, name] : names_) program.values[value].name = name;
    return program;
  }

 private:
  absl::StatusOr<ValueId> Normal(const std::string& name, DType dtype,
                                 const Shape& shape) {
    ValueId stream = builder_.Constant(
        Tensor::FromInts(DType::kI64, {1},
                         {static_cast<int64_t>(Fnv1a(name) >> 1)}),
        "init.stream");
    ASYRA_ASSIGN_OR_RETURN(ValueId key,
                           builder_.AddOne("concat", {seed_, stream},
                                           {{"dim", int64_t{0}}}, "init.key"));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId normal,
        builder_.AddOne(
            "random_normal", {key},
            {{"shape", Ints(shape.begin(), shape.end())}, {"dtype", dtype}},
            "init.normal"));
    ValueId deviation = builder_.Constant(
        Tensor::FromDoubles(dtype, {}, {kDeviation}), "init.deviation");
    return builder_.AddOne("mul", {normal, deviation}, {}, "init.value");
  }

  absl::StatusOr<ValueId> Filled(double number, DType dtype,
                                 const Shape& shape) {
    ValueId one = builder_.Constant(Tensor::FromDoubles(dtype, {}, {number}),
                                    "init.number");
    return builder_.AddOne("broadcast", {one},
                           {{"shape", Ints(shape.begin(), shape.end())}},
                           "init.value");
  }

  // Pads with zeros at the ends, up to `shape`.
  absl::StatusOr<ValueId> Padded(ValueId value, const Shape& shape) {
    for (size_t d = 0; d < shape.size(); ++d) {
      Shape rest = builder_.type(value).shape();
      if (rest[d] == shape[d]) continue;
      rest[d] = shape[d] - rest[d];
      ASYRA_ASSIGN_OR_RETURN(ValueId zeros,
                             Filled(0, builder_.type(value).dtype, rest));
      ASYRA_ASSIGN_OR_RETURN(
          value,
          builder_.AddOne("concat", {value, zeros},
                          {{"dim", static_cast<int64_t>(d)}}, "init.value"));
    }
    return value;
  }

  Builder builder_;
  ValueId seed_ = kNoValue;
  std::vector<std::pair<ValueId, std::string>> names_;
};

// Returns how a weight is read; none for what is no float weight. One that
// looks like a constant may be trained all the same, by a user's word.
std::optional<ParameterUse> UseOf(const Program& model,
                                  const WeightRoles& roles, ValueId value) {
  for (const Parameter& one : roles.parameters) {
    if (one.value == value) return one.use;
  }
  for (const UntrainedWeight& one : roles.untrained) {
    if (one.value != value || one.reason == kNoGradient) continue;
    return model.type(value).rank() >= 2 ? ParameterUse::kMatrix
                                         : ParameterUse::kBias;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Program> InitProgram(const Program& model,
                                    const std::vector<std::string>& names,
                                    const Program* padded) {
  WeightRoles roles = FindParameters(model);
  InitBuilder builder;
  for (const std::string& name : names) {
    ValueId value = model.FindValue(name);
    std::optional<ParameterUse> use = UseOf(model, roles, value);
    if (!use.has_value()) {
      return Invalid("%{} is no parameter of the model", name);
    }
    Shape stored;
    for (const Input& input : model.inputs) {
      if (input.value == value) stored = input.stored;
    }
    Type type = model.type(value);
    ValueId to = padded == nullptr ? kNoValue : padded->FindValue(name);
    if (to != kNoValue) {
      if (stored.empty()) stored = type.shape();
      for (int d = 0; d < type.rank(); ++d) {
        type.dims[d].size = padded->type(to).size(d);
      }
    }
    ASYRA_RETURN_IF_ERROR(builder.Add(name, type, stored, *use));
  }
  return std::move(builder).Finish();
}

}  // namespace asyra
