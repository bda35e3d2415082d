#include "passes/train/attach_updates.h"

#include <cmath>
#include <functional>
#include <optional>

#include "ir/builder.h"
#include "ir/support/name_pattern.h"
#include "ir/support/status.h"
#include "ir/weight_origin.h"
#include "passes/train/attach_loss.h"
#include "passes/train/differentiate.h"
#include "passes/train/loss_scale.h"
#include "passes/train/update_numbers.h"

namespace asyra {
namespace {

constexpr double kNormOffset = 1e-6;  // as PyTorch's clip_grad_norm_
constexpr double kStepsToDouble = 2000;

class UpdateAttacher {
 public:
  UpdateAttacher(const Program& program, const PassOptions& options)
      : from_(program), options_(options), builder_(Builder::Like(program)) {}

  absl::StatusOr<Program> Run() {
    ASYRA_RETURN_IF_ERROR(CopyAll());
    ASYRA_RETURN_IF_ERROR(FindGradients());
    ASYRA_RETURN_IF_ERROR(ReadDecay());
    type_ = builder_.type(loss_sum_).dtype;
    if (from_.FindValue(kRate) != kNoValue) {
      return Invalid(
          "the model has a %{} of its own: the learning rate needs the name",
          kRate);
    }
    rate_ = builder_.Input(kRate, Type(type_, {}));
    ASYRA_RETURN_IF_ERROR(AddScale());
    ASYRA_RETURN_IF_ERROR(AddStepCount());
    for (const Param& param : params_) {
      ASYRA_RETURN_IF_ERROR(options_.Get<std::string>("optimizer") == "sgd"
                                ? AddSgd(param)
                                : AddAdamW(param));
    }
    builder_.Output(loss_count_, kNoValue, kLossCount);
    return std::move(builder_).Finish();
  }

 private:
  struct Param {
    ValueId value, gradient;
  };

  absl::Status CopyAll() {
    map_.assign(from_.values.size(), kNoValue);
    for (const Input& input : from_.inputs) {
      const std::string& name = from_.value_name(input.value);
      if (input.role == InputRole::kData && name == kLossScale) {
        ASYRA_ASSIGN_OR_RETURN(dynamic_, AddLossScale(from_, builder_));
        map_[input.value] = dynamic_.scale;
        continue;
      }
      map_[input.value] = builder_.Input(from_, input);
    }
    for (const Op& op : from_.ops) {
      ASYRA_RETURN_IF_ERROR(builder_.Copy(from_, op, &map_));
    }
    // The new sums of accumulate_gradients.
    for (const Output& output : from_.outputs) {
      if (output.alias == kNoValue) continue;
      builder_.Output(map_[output.value], map_[output.alias]);
    }
    return absl::OkStatus();
  }

  absl::Status FindGradients() {
    for (const Output& output : from_.outputs) {
      std::string name = from_.output_name(output);
      if (name == kLossSum) loss_sum_ = map_[output.value];
      if (name == kLossCount) loss_count_ = map_[output.value];
      for (const Input& input : from_.inputs) {
        if (input.role == InputRole::kParam &&
            name == GradientName(from_.value_name(input.value))) {
          params_.push_back({map_[input.value], map_[output.value]});
          names_[map_[input.value]] = UserName(from_, input);
        }
      }
    }
    if (loss_sum_ == kNoValue || loss_count_ == kNoValue || params_.empty()) {
      return Invalid(
          "there are no gradients: run attach_loss and "
          "differentiate before");
    }
    return absl::OkStatus();
  }

  absl::Status ReadDecay() {
    std::string of = options_.Get<std::string>("decay_of");
    decays_ = [this](const Param& param) {
      return builder_.type(param.value).rank() >= 2;
    };
    if (of == "matrices") return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(NamePattern pattern, NamePattern::Parse(of));
    decays_ = [this, pattern](const Param& param) {
      return pattern.Matches(builder_.program().value_name(param.value)) ||
             pattern.Matches(names_.at(param.value));
    };
    if (std::any_of(params_.begin(), params_.end(), decays_)) {
      return absl::OkStatus();
    }
    return Invalid("decay_of: none of the {} params is called {}",
                   params_.size(), of);
  }

  // Adds loss, norm, and the scalar that each gradient is multiplied with.
  absl::Status AddScale() {
    ASYRA_ASSIGN_OR_RETURN(loss_, Binary("div", loss_sum_, loss_count_, kLoss));
    builder_.Output(loss_, kNoValue, kLoss);
    // Without labels that count it is 0, and neither loss nor norm is finite.
    ValueId count = loss_count_;
    if (dynamic_.scale != kNoValue) {
      ASYRA_ASSIGN_OR_RETURN(count, Binary("mul", count, dynamic_.scale));
    }
    ValueId sum = kNoValue;
    for (const Param& param : params_) {
      ASYRA_ASSIGN_OR_RETURN(ValueId part, SquareSum(param.gradient));
      if (sum == kNoValue) {
        sum = part;
      } else {
        ASYRA_ASSIGN_OR_RETURN(sum, Binary("add", sum, part, "squares"));
      }
    }
    ASYRA_ASSIGN_OR_RETURN(ValueId root, builder_.AddOne("sqrt", {sum}));
    ASYRA_ASSIGN_OR_RETURN(norm_, Binary("div", root, count, kNorm));
    builder_.Output(norm_, kNoValue, kNorm);
    scale_ = Number(1, norm_);
    if (options_.Float("clip") > 0) {
      ASYRA_ASSIGN_OR_RETURN(ValueId beside,
                             Binary("add", norm_, Number(kNormOffset, norm_)));
      ASYRA_ASSIGN_OR_RETURN(
          ValueId part,
          Binary("div", Number(options_.Float("clip"), norm_), beside));
      ASYRA_ASSIGN_OR_RETURN(scale_, Binary("min", part, scale_));
    }
    ASYRA_ASSIGN_OR_RETURN(scale_,
                           Binary("div", scale_, count, "gradient_scale"));
    ASYRA_RETURN_IF_ERROR(AddFinite());
    return FinishDynamicScale();
  }

  // The norm tells it of all gradients. Where nothing else waits for it the
  // loss does, so that a param is updated as soon as it has a gradient.
  absl::Status AddFinite() {
    ValueId number = norm_;
    if (options_.Float("clip") == 0 && dynamic_.scale == kNoValue) {
      ASYRA_ASSIGN_OR_RETURN(number, builder_.AddOne("abs", {loss_}));
    }
    ASYRA_ASSIGN_OR_RETURN(
        finite_, builder_.AddOne("less", {number, Number(HUGE_VAL, number)}));
    return absl::OkStatus();
  }

  absl::Status FinishDynamicScale() {
    if (dynamic_.scale == kNoValue) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(ValueId up,
                           Binary("add", dynamic_.state,
                                  Number(1 / kStepsToDouble, dynamic_.state)));
    // Down by one, and to where the counting begins.
    ASYRA_ASSIGN_OR_RETURN(ValueId floor,
                           builder_.AddOne("floor", {dynamic_.state}));
    ASYRA_ASSIGN_OR_RETURN(ValueId down,
                           Binary("sub", floor, Number(1, floor)));
    ASYRA_ASSIGN_OR_RETURN(ValueId next,
                           builder_.AddOne("select", {finite_, up, down}));
    // Without labels that count, the scale is not what is wrong.
    ASYRA_ASSIGN_OR_RETURN(
        ValueId counts,
        builder_.AddOne("less", {Number(0, loss_count_), loss_count_}));
    ASYRA_ASSIGN_OR_RETURN(
        next, builder_.AddOne("select", {counts, next, dynamic_.state}));
    builder_.Output(next, dynamic_.state);
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> SquareSum(ValueId value) {
    Ints dims;
    for (int d = 0; d < builder_.type(value).rank(); ++d) dims.push_back(d);
    ASYRA_ASSIGN_OR_RETURN(
        ValueId sum,
        builder_.AddOne("reduce_sum_square", {value},
                        {{"dims", dims}, {"keep", false}}, "squares"));
    return Cast(sum, type_);
  }

  absl::Status AddStepCount() {
    ValueId state =
        builder_.Input(kStepCount, Type(DType::kI64, {}), InputRole::kState);
    ASYRA_ASSIGN_OR_RETURN(
        step_,
        Binary("add", state,
               builder_.Constant(Tensor::FromInts(DType::kI64, {}, {1}))));
    ASYRA_ASSIGN_OR_RETURN(ValueId kept, Kept(step_, state));
    builder_.Output(kept, state);
    return absl::OkStatus();
  }

  absl::Status AddAdamW(const Param& param) {
    ValueId m = Moment(param, "m"), v = Moment(param, "v");
    ASYRA_ASSIGN_OR_RETURN(ValueId scale, ScaleOrInfinity());
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<ValueId> next,
        builder_.Add("adamw",
                     {param.value, param.gradient, m, v, rate_, step_, scale},
                     {{"beta1", options_.Float("beta1")},
                      {"beta2", options_.Float("beta2")},
                      {"eps", options_.Float("eps")},
                      {"weight_decay", DecayOf(param)}},
                     NewName(param)));
    builder_.Output(next[0], param.value);
    builder_.Output(next[1], m);
    builder_.Output(next[2], v);
    return absl::OkStatus();
  }

  // Returns infinity in a step that is not finite: adamw then changes nothing.
  absl::StatusOr<ValueId> ScaleOrInfinity() {
    if (safe_scale_ != kNoValue) return safe_scale_;
    ASYRA_ASSIGN_OR_RETURN(
        safe_scale_,
        builder_.AddOne("select", {finite_, scale_, Number(HUGE_VAL, scale_)},
                        {}, "gradient_scale"));
    return safe_scale_;
  }

  absl::Status AddSgd(const Param& param) {
    double momentum = options_.Float("momentum");
    std::vector<ValueId> old = {param.value};
    ASYRA_ASSIGN_OR_RETURN(ValueId gradient, Scaled(param));
    std::vector<ValueId> operands = {param.value, gradient, rate_};
    if (momentum != 0) {
      old.push_back(Moment(param, "velocity"));
      operands.push_back(old.back());
    }
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<ValueId> next,
        builder_.Add("sgd", operands,
                     {{"momentum", momentum}, {"weight_decay", DecayOf(param)}},
                     NewName(param)));
    for (size_t i = 0; i < old.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(ValueId kept, Kept(next[i], old[i]));
      builder_.Output(kept, old[i]);
    }
    return absl::OkStatus();
  }

  // Returns `next`, or `old` in a step that is not finite.
  absl::StatusOr<ValueId> Kept(ValueId next, ValueId old) {
    return builder_.AddOne("select", {finite_, next, old}, {},
                           builder_.program().value_name(next));
  }

  ValueId Moment(const Param& param, std::string_view what) {
    return builder_.Input(
        fmt::format("{}.{}", builder_.program().value_name(param.value), what),
        builder_.type(param.value), InputRole::kState);
  }

  absl::StatusOr<ValueId> Scaled(const Param& param) {
    DType dtype = builder_.type(param.gradient).dtype;
    ASYRA_ASSIGN_OR_RETURN(ValueId scale, Cast(scale_, dtype));
    return Binary("mul", param.gradient, scale,
                  fmt::format("{}.scaled",
                              builder_.program().value_name(param.gradient)));
  }

  std::string NewName(const Param& param) const {
    return fmt::format("{}.new", builder_.program().value_name(param.value));
  }

  double DecayOf(const Param& param) const {
    return decays_(param) ? options_.Float("decay") : 0;
  }

  absl::StatusOr<ValueId> Binary(std::string_view op, ValueId a, ValueId b,
                                 std::string_view name = "") {
    return builder_.AddOne(op, {a, b}, {}, name);
  }

  absl::StatusOr<ValueId> Cast(ValueId value, DType to) {
    if (builder_.type(value).dtype == to) return value;
    return builder_.AddOne("cast", {value}, {{"to", to}},
                           builder_.program().value_name(value));
  }

  ValueId Number(double number, ValueId like) {
    return builder_.Constant(
        Tensor::FromDoubles(builder_.type(like).dtype, {}, {number}));
  }

  const Program& from_;
  const PassOptions& options_;
  Builder builder_;
  std::vector<ValueId> map_;
  std::vector<Param> params_;  // in the order of the outputs
  absl::flat_hash_map<ValueId, std::string> names_;  // users', of params
  std::function<bool(const Param&)> decays_;
  DType type_ = DType::kF32;
  LossScale dynamic_;
  ValueId loss_sum_ = kNoValue, loss_count_ = kNoValue;
  ValueId loss_ = kNoValue, norm_ = kNoValue;
  ValueId rate_ = kNoValue, step_ = kNoValue, scale_ = kNoValue;
  ValueId finite_ = kNoValue;      // whether the step is
  ValueId safe_scale_ = kNoValue;  // ScaleOrInfinity
};

}  // namespace

absl::StatusOr<bool> AttachUpdates(Program& program, const PassOptions& options,
                                   PassContext&) {
  std::string optimizer = options.Get<std::string>("optimizer");
  if (optimizer != "adamw" && optimizer != "sgd") {
    return Invalid("optimizer is {}, it should be adamw or sgd", optimizer);
  }
  for (const UpdateNumber& number : UpdateNumbers()) {
    bool is_used = number.optimizer.empty() || number.optimizer == optimizer;
    double value = options.Float(number.name);
    if (!is_used || number.IsIn(value)) continue;
    return Invalid("{} is {}, it should be {}", number.name, value,
                   number.range());
  }
  ASYRA_ASSIGN_OR_RETURN(program, UpdateAttacher(program, options).Run());
  return true;
}

}  // namespace asyra
