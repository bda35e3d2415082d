// The experts that a token goes to, and their weights.
#include <cmath>
#include <numeric>

#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

absl::StatusOr<std::vector<Type>> Infer(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 1));
  Type weights = call.operands[0];
  int64_t experts = weights.dims.back().size, k = call.attrs.Int("k");
  if (k < 1 || k > experts) {
    return Invalid("k is {}, it should be in [1, {}]", k, experts);
  }
  const auto& scoring = call.attrs.Get<std::string>("scoring");
  if (scoring != "softmax" && scoring != "sigmoid") {
    return Invalid("scoring is \"{}\", it should be \"softmax\" or \"sigmoid\"",
                   scoring);
  }
  weights.dims.back() = {k, {}};
  Type chosen = weights;
  chosen.dtype = DType::kI64;
  return std::vector<Type>{weights, chosen};
}

absl::StatusOr<AxisRule> Axes(const OpCall& call) {
  return ParseAxisRule("... !e -> ... !k, ... !k", call.operands, call.results);
}

void Score(bool softmax, double* logits, int64_t count) {
  if (!softmax) {
    for (int64_t e = 0; e < count; ++e) {
      logits[e] = 1 / (1 + std::exp(-logits[e]));
    }
    return;
  }
  double largest = *std::max_element(logits, logits + count), sum = 0;
  for (int64_t e = 0; e < count; ++e) {
    sum += logits[e] = std::exp(logits[e] - largest);
  }
  for (int64_t e = 0; e < count; ++e) logits[e] /= sum;
}

absl::Status Reference(const RefCall& call) {
  bool softmax = call.attrs.Get<std::string>("scoring") == "softmax";
  bool normalize = call.attrs.Bool("normalize");
  std::vector<double> scores = call.operands[0].ToDoubles();
  int64_t count = call.operands[0].size(call.operands[0].rank() - 1);
  int64_t k = call.attrs.Int("k");
  std::vector<double> weights(call.results[0].num_elements());
  std::vector<int64_t> order(count);
  for (int64_t row = 0; row < static_cast<int64_t>(weights.size()) / k; ++row) {
    double* score = scores.data() + row * count;
    Score(softmax, score, count);
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(),
                      [&](int64_t a, int64_t b) {
                        return score[a] != score[b] ? score[a] > score[b]
                                                    : a < b;
                      });
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += score[order[i]];
    for (int64_t i = 0; i < k; ++i) {
      weights[row * k + i] = score[order[i]] / (normalize ? sum : 1);
      call.results[1].SetInt(row * k + i, order[i]);
    }
  }
  call.results[0].SetAll(weights);
  return absl::OkStatus();
}

// 1 where a choice is that expert: [..., k, experts].
ValueId Chosen(Gradient& g, const Shape& choices, int64_t experts) {
  ValueId ids = g.Op(
      "iota", {},
      {{"shape", Ints{experts}}, {"dim", int64_t{0}}, {"dtype", DType::kI64}});
  ValueId same = g.Op("equal", {g.Reshape(g.y(1), choices), ids});
  return g.Op("cast", {same}, {{"to", g.type(g.x()).dtype}});
}

// The gradient of the scores, [..., experts]. Inside, choices and experts are
// two dimensions, [..., k, experts].
ValueId ScoreGradient(Gradient& g, ValueId scores) {
  Shape choices = g.type(g.y()).shape(), by_expert = g.type(scores).shape();
  int64_t k_dim = static_cast<int64_t>(choices.size()) - 1;
  choices.push_back(1);
  ValueId chosen = Chosen(g, choices, by_expert.back());
  by_expert.insert(by_expert.end() - 1, 1);
  ValueId dw = g.Reshape(g.dy(), choices);
  if (g.attrs().Bool("normalize")) {
    // w = s / sum(s) over the chosen: ds = (dw - sum(dw w)) / sum(s).
    ValueId sum =
        g.Op("reduce_sum", {g.Mul(chosen, g.Reshape(scores, by_expert))},
             {{"dims", Ints{k_dim, k_dim + 1}}});
    ValueId dot = g.Op("reduce_sum", {g.Mul(dw, g.Reshape(g.y(), choices))},
                       {{"dims", Ints{k_dim}}});
    dw = g.Div(g.Sub(dw, dot), sum);
  }
  return g.Op("reduce_sum", {g.Mul(chosen, dw)},
              {{"dims", Ints{k_dim}}, {"keep", false}});
}

Gradients RouterVjp(Gradient& g) {
  int64_t last = g.type(g.x()).rank() - 1;
  if (g.attrs().Get<std::string>("scoring") == "sigmoid") {
    ValueId scores = g.Op("sigmoid", {g.x()});
    ValueId slope = g.Mul(scores, g.Sub(g.Scalar(1, scores), scores));
    return {g.Mul(ScoreGradient(g, scores), slope)};
  }
  ValueId scores = g.Op("softmax", {g.x()}, {{"dim", last}});
  ValueId ds = ScoreGradient(g, scores);
  ValueId dot = g.Op("reduce_sum", {g.Mul(ds, scores)}, {{"dims", Ints{last}}});
  return {g.Mul(scores, g.Sub(ds, dot))};
}

}  // namespace

OpDef RouterOp() {
  return {.name = "moe_router",
          .summary =
              "the k experts of largest score for each token, largest "
              "first (the lower index where equal), and their scores "
              "as weights",
          .operands = {{"logits"}},
          .attrs = {{"k", AttrKind::kInt, "experts a token goes to"},
                    {"scoring", AttrKind::kString,
                     "scores from logits: \"softmax\" or \"sigmoid\"",
                     std::string("softmax")},
                    {"normalize", AttrKind::kBool,
                     "weights of a token are scaled to the sum 1", false}},
          .infer = Infer,
          .axes = Axes,
          .vjp = Vjp<RouterVjp>,
          .reference = Reference,
          .samples = {{"moe_router(f32[4,6]) {k=2}"},
                      {"moe_router(f32[2,4,6]) {k=2, normalize=true}"},
                      {"moe_router(f32[4,6]) {k=4, scoring=\"sigmoid\", "
                       "normalize=true}"},
                      {"moe_router(f32[4,6]) {k=2, scoring=\"sigmoid\"}"}}};
}

}  // namespace asyra::ops
