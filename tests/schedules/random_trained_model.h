// Random models with parameters and a loss, made of what transformers are made
// of: shared values, broadcasts, tied weights, norms, attention, gated
// activations, experts. All ops have derivatives everywhere, so that finite
// differences can be trusted.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "ir/builder.h"
#include "ir/support/check.h"
#include "tests/schedules/random_choice.h"

namespace asyra {

class RandomTrainedModel {
 public:
  // A `linear` one computes integers of integers: its ops are linear in each
  // parameter alone, and so are sums, whatever their order.
  RandomTrainedModel(RandomChoice* choice, bool linear)
      : choice_(*choice), linear_(linear) {}

  // Data inputs: `ids`; with a loss of labels, logits [batch, seq, d] are the
  // output.
  Program Build(int steps) {
    ids_ = builder_.Input("ids", Type(DType::kI64, {kBatch, kSeq}));
    ValueId table = Weight({kRows, 12});
    values_.push_back(Op("embedding", {table, ids_}));
    for (int i = 0; i < steps; ++i) values_.push_back(Step());
    has_labels_ = !linear_ && choice_.Half();
    builder_.Output(has_labels_ ? values_.back() : Loss(), kNoValue, "out");
    return std::move(builder_).Finish();
  }

  static constexpr int64_t kRows = 8;  // of the table: ids are below
  bool has_labels() const { return has_labels_; }
  // How often each kind of op was taken.
  const std::map<std::string, int>& kinds() const { return kinds_; }

 private:
  static constexpr int64_t kBatch = 4, kSeq = 12;

  ValueId Any() { return choice_.Pick(values_); }
  int64_t Width(ValueId x) const { return builder_.type(x).dims.back().size; }

  ValueId Weight(const Shape& shape) {
    std::string name = fmt::format("w{}", weights_.size());
    ValueId weight =
        builder_.Input(name, Type(DType::kF64, shape), InputRole::kWeight);
    weights_.push_back(weight);
    return weight;
  }

  // One of that shape that is read elsewhere too, where there is one.
  ValueId Shared(const Shape& shape) {
    for (ValueId weight : weights_) {
      if (builder_.type(weight).shape() != shape || choice_.Half()) continue;
      ++kinds_["tied"];
      return weight;
    }
    return Weight(shape);
  }

  ValueId Op(std::string_view op, std::vector<ValueId> operands,
             AttrMap attrs = {}) {
    ++kinds_[std::string(op)];
    return ASYRA_VALUE(builder_.AddOne(op, operands, std::move(attrs)));
  }

  ValueId Number(double number) {
    return builder_.Constant(Tensor::FromDoubles(DType::kF64, {}, {number}));
  }

  ValueId Loss() {
    ValueId x = values_.back();
    if (linear_) return Op("reduce_sum", {x}, {{"dims", Ints{0, 1, 2}}});
    return Op("reduce_mean", {Op("mul", {x, x})}, {{"dims", Ints{0, 1, 2}}});
  }

  ValueId Linear(ValueId x, int64_t out) {
    if (choice_.Half()) return Op("matmul", {x, Shared({Width(x), out})});
    return Op("matmul", {x, Shared({out, Width(x)})}, {{"transpose_b", true}});
  }

  // All values are [batch, seq, d] with d 4, 8 or 12.
  ValueId Step() {
    ValueId x = Any();
    return linear_ || choice_.Below(3) == 0 ? LinearStep(x) : SmoothStep(x);
  }

  ValueId LinearStep(ValueId x) {
    int64_t d = Width(x);
    switch (choice_.Below(8)) {
      case 0:
      case 1:
        return Linear(x, choice_.Pick<int64_t>({4, 8, 12}));
      case 2:
        return Op("add", {x, choice_.Half() ? Shared({d}) : Shared({kSeq, d})});
      case 3:
        return Op("sub", {x, Op("reduce_sum", {x}, {{"dims", Ints{2}}})});
      case 4: {  // tokens are mixed
        ValueId turned = Op("transpose", {x}, {{"perm", Ints{0, 2, 1}}});
        ValueId mixed = Op("matmul", {turned, Shared({kSeq, kSeq})});
        return Op("transpose", {mixed}, {{"perm", Ints{0, 2, 1}}});
      }
      case 5: {  // halves are swapped
        ValueId low =
            Op("slice", {x},
               {{"dim", int64_t{2}}, {"start", int64_t{0}}, {"stop", d / 2}});
        ValueId high = Op("slice", {x},
                          {{"dim", int64_t{2}}, {"start", d / 2}, {"stop", d}});
        return Op("concat", {Op("neg", {high}), low}, {{"dim", int64_t{2}}});
      }
      case 6:
        return Experts(x);
      default: {
        ValueId y = Any();
        return Op("add", {x, builder_.type(y) == builder_.type(x) ? y : x});
      }
    }
  }

  ValueId SmoothStep(ValueId x) {
    int64_t d = Width(x);
    switch (choice_.Below(9)) {
      case 0:
        return Op(
            choice_.Pick<std::string>({"gelu", "silu", "tanh", "sigmoid",
                                       "gelu_tanh", "softplus", "erf", "sin"}),
            {x});
      case 1:
        return Op("rms_norm", {x, Shared({d})}, {{"eps", 0.125}});
      case 2:
        return Op("layer_norm", {x, Shared({d}), Shared({d})},
                  {{"eps", 0.125}});
      case 3:
        return Op(choice_.Pick<std::string>({"softmax", "log_softmax"}), {x},
                  {{"dim", int64_t{2}}});
      case 4:
        return Attention(x);
      case 5:
        return Op(choice_.Pick<std::string>({"swiglu", "geglu"}),
                  {Linear(x, d), Linear(x, d)});
      case 6:
        return Op("mul", {x, Shared({d})});
      case 7: {
        ValueId above = Op("add", {Op("mul", {x, x}), Number(1)});
        return Op("div", {Linear(x, d), Op("sqrt", {above})});
      }
      default: {
        ValueId y = Any();
        if (builder_.type(y) != builder_.type(x)) y = x;
        return Op("mul", {Op("tanh", {y}), x});
      }
    }
  }

  ValueId Attention(ValueId x) {
    int64_t d = Width(x), heads = d / 4;
    bool grouped = choice_.Half();
    std::vector<ValueId> parts;
    for (int64_t count : {heads, grouped ? 1 : heads, grouped ? 1 : heads}) {
      parts.push_back(Op("reshape", {Linear(x, count * 4)},
                         {{"shape", Ints{kBatch, kSeq, count, 4}}}));
    }
    ValueId y =
        Op("attention", parts, {{"causal", choice_.Half()}, {"scale", 0.5}});
    return Op("reshape", {y}, {{"shape", Ints{kBatch, kSeq, d}}});
  }

  // A mixture of 8 experts, one for each token.
  ValueId Experts(ValueId x) {
    int64_t group = choice_.Pick<int64_t>({1, 3, 6});
    ValueId expert = Op("reshape", {ids_}, {{"shape", Ints{kBatch, kSeq, 1}}});
    ValueId rows = Op("moe_dispatch", {x, expert},
                      {{"num_experts", int64_t{8}},
                       {"group_size", group},
                       {"capacity", choice_.Pick<int64_t>({1, 2})}});
    rows = Op("grouped_matmul",
              {rows, Shared({8, Width(x), choice_.Pick<int64_t>({4, 8})})});
    ValueId weight = Op("reduce_sum", {x}, {{"dims", Ints{2}}});
    if (!linear_) weight = Op("sigmoid", {weight});
    return Op("moe_combine", {rows, expert, weight}, {{"group_size", group}});
  }

  RandomChoice& choice_;
  bool linear_;
  bool has_labels_ = false;
  Builder builder_;
  ValueId ids_ = kNoValue;
  std::vector<ValueId> weights_, values_;
  std::map<std::string, int> kinds_;
};

}  // namespace asyra
