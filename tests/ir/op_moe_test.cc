// Mixture of experts: the ops together against the formula, what is dropped,
// and what is refused.
#include <random>

#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

std::vector<Tensor> RunOp(std::string_view op, AttrMap attrs,
                          const std::vector<Tensor>& operands) {
  const OpDef& def = *FindOp(op);
  ASYRA_CHECK_OK(CompleteAttrs(def, &attrs));
  return ASYRA_VALUE(Evaluate(def, attrs, operands));
}

Tensor Random(Shape shape, std::mt19937_64* random) {
  Tensor tensor(DType::kF64, shape);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.Set(i, normal(*random));
  }
  return tensor;
}

Tensor Literal(std::string_view text) {
  return std::get<Tensor>(ASYRA_VALUE(ParseAttr(AttrKind::kTensor, text, {})));
}

constexpr int64_t kTokens = 8, kHidden = 3, kOut = 2, kExperts = 4, kK = 2;

// sum over the choices of weight * x W[expert].
std::vector<double> Formula(const Tensor& x, const Tensor& w,
                            const Tensor& weights, const Tensor& experts) {
  std::vector<double> y(kTokens * kOut, 0.0);
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t k = 0; k < kK; ++k) {
      auto expert = static_cast<int64_t>(experts.Get(t * kK + k));
      for (int64_t o = 0; o < kOut; ++o) {
        for (int64_t h = 0; h < kHidden; ++h) {
          y[t * kOut + o] += weights.Get(t * kK + k) * x.Get(t * kHidden + h) *
                             w.Get((expert * kHidden + h) * kOut + o);
        }
      }
    }
  }
  return y;
}

TEST(Moe, OpsTogetherAreTheFormula) {
  std::mt19937_64 random(7);
  Tensor x = Random({kTokens, kHidden}, &random);
  Tensor w = Random({kExperts, kHidden, kOut}, &random);
  std::vector<Tensor> routed =
      RunOp("moe_router", {{"k", kK}, {"normalize", true}},
            {Random({kTokens, kExperts}, &random)});
  std::vector<double> want = Formula(x, w, routed[0], routed[1]);
  for (int64_t group : {1, 2, 4, 8}) {
    Tensor rows = RunOp(
        "moe_dispatch",
        {{"num_experts", kExperts}, {"group_size", group}, {"capacity", group}},
        {x, routed[1]})[0];
    EXPECT_EQ(rows.shape(), (Shape{kExperts, kTokens, kHidden}));
    rows = RunOp("grouped_matmul", {}, {rows, w})[0];
    Tensor y = RunOp("moe_combine", {{"group_size", group}},
                     {rows, routed[1], routed[0]})[0];
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(y.Get(static_cast<int64_t>(i)), want[i], 1e-12);
    }
  }
}

TEST(Moe, RouterTakesTheLargestAndTheLowerIndexWhereEqual) {
  std::vector<Tensor> routed = RunOp("moe_router", {{"k", int64_t{3}}},
                                     {Literal("f64[2,4](0, 5, 5, 1, "
                                              "2, 2, 2, 2)")});
  EXPECT_EQ(ToString(routed[1]), "i64[2,3](1, 2, 3, 0, 1, 2)");
  EXPECT_EQ(routed[0].Get(3), 0.25);
  routed = RunOp("moe_router",
                 {{"k", int64_t{2}},
                  {"scoring", std::string("sigmoid")},
                  {"normalize", true}},
                 {Literal("f64[1,3](0, -90, 0)")});
  EXPECT_EQ(ToString(routed[0]), "f64[1,2](0.5, 0.5)");
}

// Three tokens of a group choose expert 1, which has two slots for a group;
// group 2 starts anew.
TEST(Moe, ChoicesBeyondCapacityAreDropped) {
  Tensor x = Literal("f32[6,1](1, 2, 3, 4, 5, 6)");
  Tensor experts = Literal("i64[6,1](1, 1, 1, 0, 1, 0)");
  Tensor weights = Literal("f32[6,1](1, 1, 1, 1, 1, 10)");
  Tensor rows = RunOp("moe_dispatch",
                      {{"num_experts", int64_t{2}},
                       {"group_size", int64_t{3}},
                       {"capacity", int64_t{2}}},
                      {x, experts})[0];
  EXPECT_EQ(ToString(rows),
            "f32[2,4,1](0.0, 0.0, 4.0, 6.0, 1.0, 2.0, 5.0, 0.0)");
  AttrMap groups = {{"group_size", int64_t{3}}};
  EXPECT_EQ(ToString(RunOp("moe_combine", groups, {rows, experts, weights})[0]),
            "f32[6,1](1.0, 2.0, 0.0, 4.0, 5.0, 60.0)");
  EXPECT_EQ(ToString(RunOp("moe_collect", groups, {rows, experts})[0]),
            "f32[6,1,1](1.0, 2.0, 0.0, 4.0, 5.0, 6.0)");
}

TEST(Moe, AnExpertThatIsNotThereIsAnError) {
  AttrMap attrs = {{"num_experts", int64_t{2}}};
  const OpDef& def = *FindOp("moe_dispatch");
  ASYRA_CHECK_OK(CompleteAttrs(def, &attrs));
  absl::StatusOr<std::vector<Tensor>> rows =
      Evaluate(def, attrs, {Literal("f32[1,1](1)"), Literal("i64[1,1](2)")});
  EXPECT_EQ(MessageOf(rows.status()), "expert 2 is not in [0, 2)");
}

TEST(Moe, RefusesWhatDoesNotFit) {
  struct Refused {
    std::string_view call, error;
  };
  for (const Refused& refused : std::initializer_list<Refused>{
           {"moe_router(f32[4,6]) {k=7}",
            "moe_router: k is 7, it should be in [1, 6]"},
           {"moe_router(f32[4,6]) {k=1, scoring=\"relu\"}",
            "moe_router: scoring is \"relu\", it should be \"softmax\" or "
            "\"sigmoid\""},
           {"moe_dispatch(f32[4,6], i64[4,2]) {num_experts=4, group_size=3}",
            "moe_dispatch: group_size is 3, it does not divide 4 tokens"},
           {"moe_dispatch(f32[4,6], i64[5,2]) {num_experts=4}",
            "moe_dispatch: experts are for 5 tokens, x has 4"},
           {"moe_dispatch(f32[2,4,6], i64[3,4,2]) {num_experts=4}",
            "moe_dispatch: leading dimensions differ: x has [2], experts has "
            "[3]"},
           {"moe_combine(f32[2,5,6], i64[4,2], f32[4,2])",
            "moe_combine: 5 slots are not a multiple of 4 groups"},
           {"moe_combine(f32[2,4,6], i64[4,2], f32[4,3])",
            "moe_combine: weights are f32[4,3], they should be f32[4,2]"},
           {"grouped_matmul(f32[2,4,6], f32[3,6,8])",
            "grouped_matmul: rows are in 2 groups, weights in 3"},
           {"grouped_matmul(f32[2,4,6], f32[2,7,8])",
            "grouped_matmul: contracting sizes differ: lhs dim 2 is 6, rhs dim "
            "1 is 7"},
           {"grouped_matmul(f32[2,4,6], f32[2,6,8]) {occupancy=1.5}",
            "grouped_matmul: occupancy is 1.5, it should be in (0, 1]"}}) {
    ParsedCall call = ASYRA_VALUE(ParseCall(refused.call, {}));
    absl::StatusOr<std::vector<Type>> types =
        InferTypes(*call.def, call.attrs, call.operands, {});
    EXPECT_EQ(MessageOf(types.status()), refused.error) << refused.call;
  }
}

}  // namespace
}  // namespace asyra
