// Random mixtures and their gradients, over meshes, with experts that get all
// tokens or none: packed rows give what slots do.
#include "passes/shard/pack_expert_rows.h"

#include <map>
#include <optional>
#include <random>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/builder.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "passes/shard/weigh_packed_rows.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

// Axes of the mesh.
constexpr int8_t kDp = 0, kSp = 1;

class RandomMixture {
 public:
  explicit RandomMixture(uint64_t seed) : random_(seed) {
    dp_ = Pick({1, 2, 3});
    sp_ = Pick({1, 2});
    batches_ = sp_ > 1 || Pick({0, 1}) == 1;
    experts_ = Pick({1, 2, 3, 5, 8});
    chosen_ = std::min(Pick({1, 2, 3}), experts_);
    tokens_ = Pick({4, 6, 8}) * (batches_ ? sp_ : dp_);
    group_ = Pick({1, 2});
  }

  int64_t groups() { return Pick({0, 1, 2}); }

  // Forward, and the gradients of tokens, choices and all weights.
  Program Build() {
    int64_t h = Pick({1, 3, 4}), f = Pick({2, 5});
    builder_.emplace(ParseMesh(fmt::format("(dp={}, sp={})", dp_, sp_)),
                     Stage::kLocal);
    ValueId x = builder_->Input("x", Tokens({h}));
    ValueId logits = builder_->Input("l", Tokens({experts_}));
    ValueId w = Weight("w", {experts_, h, f}),
            v = Weight("v", {experts_, f, h});
    ValueId bias = Weight("b", {experts_, 1, f});
    ValueId dy = builder_->Input("dy", Tokens({h}));
    std::vector<ValueId> routed = ASYRA_VALUE(builder_->Add(
        "moe_router", {logits}, {{"k", chosen_}, {"normalize", true}}));
    ValueId weights = routed[0], experts = routed[1];
    AttrMap group = {{"group_size", group_}};
    ValueId rows = Dispatch(x, experts, group_);
    ValueId before = Op("add", {Op("grouped_matmul", {rows, w}), bias});
    ValueId act =
        Op(std::array{"silu", "tanh", "sigmoid"}[Pick({0, 1, 2})], {before});
    ValueId out = Op("grouped_matmul", {act, v}, {{"transpose_b", false}});
    Output(Op("moe_combine", {out, experts, weights}, group));
    Output(Op("moe_collect", {out, experts}, group));
    // Backward: gradients of choices are tokens of one choice each.
    ValueId of_tokens = Reshape(dy, {tokens_, 1, h});
    ValueId products =
        Op("mul", {Op("moe_collect", {out, experts}, group), of_tokens});
    Output(Op("reduce_sum", {products},
              {{"dims", Ints{batches_ ? 3 : 2}}, {"keep", false}}));
    ValueId of_choices =
        Op("mul", {Reshape(weights, {tokens_, chosen_, 1}), of_tokens});
    ValueId drows =
        Dispatch(Reshape(of_choices, {tokens_ * chosen_, h}),
                 Reshape(experts, {tokens_ * chosen_, 1}), group_ * chosen_);
    ValueId dact = Op("grouped_matmul", {drows, v}, {{"transpose_b", true}});
    AttrMap keep = {{"keep", int64_t{batches_ ? 2 : 1}}};
    OutputSum(Op("matmul_wgrad", {rows, dact}, keep));
    OutputSum(Op("matmul_wgrad", {act, drows}, keep));
    OutputSum(Op("reduce_sum", {dact},
                 {{"dims", Ints{batches_ ? 2 : 1}}, {"keep", false}}));
    ValueId dx = Op("grouped_matmul", {dact, w}, {{"transpose_b", true}});
    Output(Op("moe_combine", {dx, experts, weights}, group));
    return std::move(*builder_).Finish();
  }

  // Logits favour one expert in some of the programs.
  std::vector<Tensor> Inputs(const Program& program) {
    std::normal_distribution<double> normal;
    int64_t favoured = Pick({-1, 0, 1});
    std::vector<Tensor> inputs;
    for (const Input& input : program.inputs) {
      const Type& type = program.type(input.value);
      Tensor tensor(type.dtype, type.shape());
      bool logits = program.value_name(input.value) == "l";
      for (int64_t i = 0; i < tensor.num_elements(); ++i) {
        bool here = logits && i % experts_ == favoured;
        tensor.Set(i, normal(random_) + (here ? 100 : 0));
      }
      inputs.push_back(std::move(tensor));
    }
    return inputs;
  }

 private:
  int64_t Pick(std::initializer_list<int64_t> from) {
    return from.begin()[random_() % from.size()];
  }

  // [tokens, row...], with or without batches.
  Type Tokens(Shape row) const {
    row.insert(row.begin(), tokens_);
    if (batches_) row.insert(row.begin(), 2 * dp_);
    Type type(DType::kF64, row);
    if (dp_ > 1) type.dims[0].axes = {kDp};
    if (batches_ && sp_ > 1) type.dims[1].axes = {kSp};
    return type;
  }
  ValueId Weight(std::string_view name, const Shape& shape) {
    return builder_->Input(name, Type(DType::kF64, shape), InputRole::kWeight);
  }

  ValueId Op(std::string_view name, const std::vector<ValueId>& operands,
             AttrMap attrs = {}) {
    return ASYRA_VALUE(builder_->AddOne(name, operands, std::move(attrs)));
  }
  ValueId Reshape(ValueId value, Ints shape) {
    if (batches_) shape.insert(shape.begin(), 2 * dp_);
    return Op("reshape", {value}, {{"shape", shape}});
  }
  ValueId Dispatch(ValueId x, ValueId experts, int64_t group) {
    return Op("moe_dispatch", {x, experts},
              {{"num_experts", experts_},
               {"group_size", group},
               {"capacity", group_}});
  }
  void Output(ValueId value) { builder_->Output(value); }
  void OutputSum(ValueId partial) {
    if ((batches_ ? sp_ : dp_) == 1) return Output(partial);
    Output(Op("all_reduce", {partial},
              {{"axes", AxisList{batches_ ? kSp : kDp}}}));
  }

  std::mt19937_64 random_;
  int64_t dp_, sp_, experts_, chosen_, tokens_, group_;
  bool batches_;
  std::optional<Builder> builder_;
};

void ExpectNear(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  std::vector<double> x = a.ToDoubles(), y = b.ToDoubles();
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(x[i], y[i], 1e-11 * std::max(1.0, std::abs(y[i])));
  }
}

TEST(PackExpertRowsProperty, ComputesWhatSlotsDo) {
  std::map<std::string, int> covered;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomMixture mixture(seed);
    Program program = mixture.Build();
    std::vector<Tensor> inputs = mixture.Inputs(program);
    auto want = ASYRA_VALUE(Interpret(program, inputs));
    PassContext context;
    PassOptions options = {{"groups", mixture.groups()}};
    Program packed = program;
    ASSERT_TRUE(ASYRA_VALUE(PackExpertRows(packed, options, context)))
        << ToString(program);
    absl::Status verified = Verify(packed);
    ASSERT_TRUE(verified.ok()) << verified << ToString(packed);
    for (const Op& op : packed.ops) {
      std::string name(op.def->name);
      EXPECT_THAT(
          name, testing::Not(testing::AnyOf("moe_dispatch", "grouped_matmul")));
      if (name.starts_with("packed_")) ++covered[name];
    }
    auto got = ASYRA_VALUE(Interpret(packed, inputs));
    for (size_t i = 0; i < want.size(); ++i) ExpectNear(got[i], want[i]);
    // Backward of some, with the weights of choices in what moves rows.
    if (!ASYRA_VALUE(WeighPackedRows(packed, {}, context))) continue;
    verified = Verify(packed);
    ASSERT_TRUE(verified.ok()) << verified << ToString(packed);
    for (const Op& op : packed.ops) {
      if (op.def->name == "packed_dot") ++covered["packed_dot"];
      if (op.def->name == "packed_dispatch" && op.operands.size() == 3) {
        ++covered["packed_dispatch with weights"];
      }
    }
    got = ASYRA_VALUE(Interpret(packed, inputs));
    for (size_t i = 0; i < want.size(); ++i) ExpectNear(got[i], want[i]);
  }
  EXPECT_EQ(covered.size(), 9u);
  for (const auto& [name, count] : covered) {
    GTEST_LOG_(INFO) << name << ": " << count;
  }
}

TEST(PackExpertRows, RefusesGroupsThatDoNotFit) {
  Program program = RandomMixture(1).Build();
  PassContext context;
  for (auto [groups, error] : {std::pair{-1, "groups is -1"},
                               {97, "groups is 97, it does not divide the"}}) {
    Program packed = program;
    absl::Status status =
        PackExpertRows(packed, {{"groups", int64_t{groups}}}, context).status();
    EXPECT_THAT(std::string(status.message()), testing::StartsWith(error));
    EXPECT_EQ(ToString(packed), ToString(program));
  }
}

}  // namespace
}  // namespace asyra
