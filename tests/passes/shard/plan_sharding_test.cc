// What plan_sharding finds on models it knows nothing of.
#include "passes/shard/plan_sharding.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "passes/shard/partition.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

struct Partitioned {
  Program local;
  ShardingPlan plan;
  std::vector<std::string> remarks;
};

// Under the costs of a machine, as asyra-opt does.
absl::StatusOr<Partitioned> TryShard(Program program,
                                     std::vector<Mesh::Axis> axes,
                                     PlanOptions options = {},
                                     std::string_view pins = "") {
  program.mesh = ASYRA_VALUE(Mesh::Create(std::move(axes)));
  Machine machine = ASYRA_VALUE(LoadMachine("h200x8"));
  CostModel costs(machine, program.mesh);
  options.costs.model = &costs;
  options.pins = ASYRA_VALUE(ReadPins(pins, program));
  PassContext context;
  absl::StatusOr<ShardingPlan> plan = PlanSharding(program, options, context);
  if (!plan.ok()) return plan.status();
  Program local = ASYRA_VALUE(Partition(program, *plan, options.costs));
  EXPECT_EQ(Verify(local), absl::OkStatus());
  return Partitioned{std::move(local), *std::move(plan),
                     std::move(context.remarks)};
}

Partitioned Shard(Program program, std::vector<Mesh::Axis> axes,
                  PlanOptions options = {}, std::string_view pins = "") {
  return ASYRA_VALUE(
      TryShard(std::move(program), std::move(axes), std::move(options), pins));
}

using Sizes = std::map<std::string, int64_t>;

Program Model(std::string_view name, const Sizes& sizes) {
  return ASYRA_VALUE(BuiltinModel(std::string(name), sizes));
}

// Collectives whose values have names that begin so, as "op over axes".
std::map<std::string, int> Collectives(const Program& local,
                                       std::string_view prefix) {
  std::map<std::string, int> counts;
  for (const Op& op : local.ops) {
    const std::string& name = local.value_name(op.results[0]);
    if (!op.is_collective() || !name.starts_with(prefix)) continue;
    ++counts[fmt::format(
        "{} over {}", op.def->name,
        AxesToString(op.attrs.Get<AxisList>("axes"), local.mesh))];
  }
  return counts;
}

std::string TypeOf(const Program& program, std::string_view name) {
  ValueId value = program.FindValue(name);
  return value == kNoValue ? "no such value"
                           : ToString(program.type(value), program.mesh);
}

Program Llama8B() {
  return Model("llama3-8b", {{"layers", 4}, {"batch", 1}, {"seq", 4096}});
}

TEST(PlanSharding, ATensorParallelLayerReducesTwice) {
  Partitioned llama = Shard(Llama8B(), {{"tp", 4}});
  EXPECT_THAT(Collectives(llama.local, "layer2."),
              ElementsAre(Pair("all_reduce over tp", 2)));
  // Column-parallel, then row-parallel; heads and vocabulary over tp.
  for (const char* name : {"q_proj", "k_proj", "v_proj", "gate_proj"}) {
    EXPECT_THAT(TypeOf(llama.local, fmt::format("layer2.{}.weight", name)),
                testing::MatchesRegex("bf16\\[[0-9]+@tp, 4096\\]"));
  }
  EXPECT_EQ(TypeOf(llama.local, "layer2.o_proj.weight"), "bf16[4096, 4096@tp]");
  EXPECT_EQ(TypeOf(llama.local, "layer2.down_proj.weight"),
            "bf16[4096, 14336@tp]");
  EXPECT_EQ(TypeOf(llama.local, "layer2.attention"),
            "bf16[1, 4096, 32@tp, 128]");
  EXPECT_EQ(TypeOf(llama.local, "logits"), "bf16[1, 4096, 128256@tp]");
}

TEST(PlanSharding, TpStrategyChoosesTheCollectivesOfNorms) {
  PlanOptions options;
  options.tp_strategy = TpStrategy::kSequence;
  Partitioned sequence = Shard(Llama8B(), {{"tp", 4}}, options);
  EXPECT_THAT(Collectives(sequence.local, "layer2."),
              ElementsAre(Pair("all_gather over tp", 2),
                          Pair("reduce_scatter over tp", 2)));
  EXPECT_EQ(TypeOf(sequence.local, "layer2.input_norm"),
            "bf16[1, 4096@tp, 4096]");
  options.tp_strategy = TpStrategy::kReplicated;
  Partitioned replicated = Shard(Llama8B(), {{"tp", 4}}, options);
  EXPECT_THAT(Collectives(replicated.local, "layer2."),
              ElementsAre(Pair("all_reduce over tp", 2)));
  EXPECT_EQ(TypeOf(replicated.local, "layer2.input_norm"),
            "bf16[1, 4096, 4096]");
  // What is free to choose costs no more than either.
  Partitioned any = Shard(Llama8B(), {{"tp", 4}});
  EXPECT_LE(any.plan.us, sequence.plan.us);
  EXPECT_LE(any.plan.us, replicated.plan.us);
}

TEST(PlanSharding, SequenceParallelAttentionExchangesHeadsForTokens) {
  Partitioned llama = Shard(Llama8B(), {{"sp", 4}});
  EXPECT_THAT(Collectives(llama.local, "layer2."),
              ElementsAre(Pair("all_to_all over sp", 4)));
  EXPECT_EQ(TypeOf(llama.local, "layer2.attention"),
            "bf16[1, 4096, 32@sp, 128]");
  EXPECT_EQ(TypeOf(llama.local, "layer2.gate_proj"), "bf16[1, 4096@sp, 14336]");
}

TEST(PlanSharding, KeysAndValuesAreGatheredWhereHeadsDoNotDivide) {
  Partitioned llama = Shard(Llama8B(), {{"sp", 16}});
  EXPECT_THAT(Collectives(llama.local, "layer2."),
              ElementsAre(Pair("all_gather over sp", 2)));
  EXPECT_THAT(llama.remarks,
              testing::Contains(testing::AllOf(
                  HasSubstr("axis sp of size 16 does not divide attention"),
                  HasSubstr("%layer0.k_rotary"), HasSubstr("are gathered"))));
}

TEST(PlanSharding, BatchAndTensorTogether) {
  Program model = Model("llama3-8b", {{"layers", 4}, {"batch", 4}});
  Partitioned llama = Shard(model, {{"dp", 2}, {"tp", 4}});
  // In the strategy that costs less.
  EXPECT_THAT(Collectives(llama.local, "layer2."),
              testing::AnyOf(ElementsAre(Pair("all_reduce over tp", 2)),
                             ElementsAre(Pair("all_gather over tp", 2),
                                         Pair("reduce_scatter over tp", 2))));
  EXPECT_EQ(TypeOf(llama.local, "layer2.attention"),
            "bf16[4@dp, 8192, 32@tp, 128]");
}

std::map<std::string, int> ExpertCollectives(const Program& local) {
  std::map<std::string, int> counts = Collectives(local, "layer2.dispatch");
  for (const char* name : {"layer2.experts", "layer2.combine"}) {
    for (auto& [text, count] : Collectives(local, name)) counts[text] += count;
  }
  return counts;
}

TEST(PlanSharding, ExpertsExchangeTokensOnceForEachWay) {
  Program model = Model("qwen3-30b-a3b", {{"layers", 4}});
  std::vector<Mesh::Axis> axes = {{"ep", 8}, {"sp", 2}, {"tp", 2}};
  Partitioned qwen = Shard(model, axes);
  EXPECT_THAT(ExpertCollectives(qwen.local),
              ElementsAre(Pair("all_to_all over (ep,tp)", 2)));
  EXPECT_EQ(TypeOf(qwen.local, "layer2.experts.gate_proj.weight"),
            "bf16[128@(ep,tp), 768, 2048]");

  PlanOptions options;
  options.ep_strategy = EpStrategy::kAllGather;
  Partitioned gathers = Shard(model, axes, options);
  EXPECT_EQ(ExpertCollectives(gathers.local).count("all_to_all over ep"), 0u);
  options.ep_strategy = EpStrategy::kAny;
  EXPECT_LE(Shard(model, axes, options).plan.us,
            std::min(qwen.plan.us, gathers.plan.us));
}

TEST(PlanSharding, ExpertsMayLieOverDataAxes) {
  Program model = Model("qwen3-moe-tiny", {{"batch", 4}});
  PlanOptions options;
  options.expert_axes = {0, 1};
  Partitioned qwen = Shard(model, {{"dp", 2}, {"sp", 2}}, options);
  EXPECT_THAT(TypeOf(qwen.local, "layer1.experts.gate_proj.weight"),
              HasSubstr("[8@(dp,sp), "));
  EXPECT_THAT(TypeOf(qwen.local, "layer1.q_proj.weight"),
              testing::Not(HasSubstr("@")));
}

// Also where it could shard tokens, and where other axes are to shard experts.
TEST(PlanSharding, AnExpertAxisNeedsExperts) {
  for (auto [axis, size] : {std::pair{"ep", 2}, std::pair{"ep", 3}}) {
    absl::StatusOr<Partitioned> plan =
        TryShard(Llama8B(), {{"tp", 2}, {axis, size}});
    ASSERT_FALSE(plan.ok());
    EXPECT_THAT(
        plan.status().ToString(),
        HasSubstr(fmt::format("axis {} of size {} shards no", axis, size)));
  }
  PlanOptions options;
  options.expert_axes = {0};
  absl::StatusOr<Partitioned> plan =
      TryShard(Llama8B(), {{"dp", 2}, {"tp", 2}}, options);
  EXPECT_EQ(plan.status().message(),
            "axis dp of size 2 shards no experts: the model has none, no op "
            "multiplies by a batch of weight matrices");
}

// 8 experts over dp leave none to divide over tp, which takes their hidden
// dimension.
TEST(PlanSharding, ExpertsGoToTheAxesThatAreAskedToShardThem) {
  Program model = Model("qwen3-moe-tiny", {{"batch", 16}, {"seq", 128}});
  PlanOptions options;
  options.expert_axes = {0};
  Partitioned qwen = Shard(model, {{"dp", 4}, {"tp", 4}}, options);
  EXPECT_EQ(TypeOf(qwen.local, "layer1.experts.gate_proj.weight"),
            "f32[8@dp, 96@tp, 64]");
  EXPECT_EQ(Collectives(qwen.local, "").count("all_to_all over dp"), 1u);
}

TEST(PlanSharding, ExpertsThatAreTooFewAreRefused) {
  PlanOptions options;
  options.expert_axes = {0};
  absl::StatusOr<Partitioned> plan =
      TryShard(Model("qwen3-moe-tiny", {{"batch", 16}}), {{"dp", 16}}, options);
  EXPECT_EQ(plan.status().message(),
            "axis dp of size 16 shards no experts: there are 8 of them "
            "(%layer0.experts.gate_proj.weight) for 16 devices over dp");
}

// 14 heads of 2 over 4 devices.
constexpr std::string_view kHeads = R"(asyra 1 global
program @heads(%x: f32[2, 8, 28], %wq: f32[28, 28] weight,
    %wk: f32[28, 28] weight, %wv: f32[28, 28] weight,
    %wo: f32[28, 28] weight) -> (f32[2, 8, 28]) {
  %q = matmul(%x, %wq) : f32[2, 8, 28]
  %k = matmul(%x, %wk) : f32[2, 8, 28]
  %v = matmul(%x, %wv) : f32[2, 8, 28]
  %qh = reshape(%q) {shape=[2, 8, 14, 2]} : f32[2, 8, 14, 2]
  %kh = reshape(%k) {shape=[2, 8, 14, 2]} : f32[2, 8, 14, 2]
  %vh = reshape(%v) {shape=[2, 8, 14, 2]} : f32[2, 8, 14, 2]
  %a = attention(%qh, %kh, %vh) {scale=0.7} : f32[2, 8, 14, 2]
  %m = reshape(%a) {shape=[2, 8, 28]} : f32[2, 8, 28]
  %y = matmul(%m, %wo) : f32[2, 8, 28]
  return %y
}
)";

TEST(PlanSharding, HeadsThatDoNotDivideStayWholeWithARemark) {
  Program program = ASYRA_VALUE(ParseProgram(kHeads));
  Partitioned heads = Shard(program, {{"tp", 4}});
  EXPECT_THAT(heads.remarks,
              testing::Contains(testing::AllOf(
                  HasSubstr("axis tp of size 4 does not divide attention (%a)"),
                  HasSubstr("of %qh of size 14, which tp of size 4 does not "
                            "divide"))));
  // The weights are divided all the same.
  EXPECT_THAT(TypeOf(heads.local, "wo"), HasSubstr("28@tp"));
}

TEST(PlanSharding, APinThatCannotHoldNamesOpDimensionSizesAndAxis) {
  Program program = ASYRA_VALUE(ParseProgram(kHeads));
  program.mesh = ASYRA_VALUE(Mesh::Create({{"tp", 4}}));
  EXPECT_EQ(ReadPins("qh=2@tp", program).status().message(),
            "pin 'qh=2@tp': dim 2 of %qh (reshape) has size 14, which tp of "
            "size 4 does not divide");
}

// Tokens that do not divide: the heads do.
TEST(PlanSharding, AnAxisWithoutItsDimensionDividesHeads) {
  Program model = Model("llama3-tiny", {{"batch", 1}, {"seq", 17}});
  Partitioned llama = Shard(model, {{"sp", 2}});
  EXPECT_THAT(TypeOf(llama.local, "layer1.attention"), HasSubstr("@sp"));
}

// What costs more than it saves is done all the same, and said.
TEST(PlanSharding, AnAxisThatWasAskedForIsUsedWhereItMayBe) {
  Program concat = ASYRA_VALUE(ParseProgram(R"(asyra 1 global
program @f(%a: f32[64, 64]) -> (f32[128, 64]) {
  %y = concat(%a, %a) {dim=0} : f32[128, 64]
  return %y
}
)"));
  EXPECT_EQ(TypeOf(Shard(concat, {{"x", 2}}).local, "y"), "f32[128, 64@x]");
  Program scan = ASYRA_VALUE(ParseProgram(R"(asyra 1 global
program @f(%a: f32[4, 8]) -> (f32[4, 8]) {
  %b = cumsum(%a) {dim=1} : f32[4, 8]
  %y = softmax(%b) {dim=0} : f32[4, 8]
  return %y
}
)"));
  Partitioned sharded = Shard(scan, {{"dp", 2}});
  EXPECT_THAT(sharded.remarks,
              testing::Contains(HasSubstr("axis dp costs more than it saves")));
}

// Each matmul of data is for an axis; none is left out by its cost.
TEST(PlanSharding, AttentionOfInputsIsDividedByAnyAxis) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global
program @f(%q: f32[2, 8, 4, 8], %k: f32[2, 8, 4, 8], %v: f32[2, 8, 4, 8])
    -> (f32[2, 8, 4, 8]) {
  %y = attention(%q, %k, %v) {scale=0.7} : f32[2, 8, 4, 8]
  return %y
}
)"));
  std::string y =
      TypeOf(Shard(program, {{"dp", 2}, {"sp", 4}, {"tp", 2}}).local, "y");
  for (const char* axis : {"dp", "sp", "tp"}) EXPECT_THAT(y, HasSubstr(axis));
}

TEST(PlanSharding, ARefusalNamesTheDimensionsThatWereConsidered) {
  Program program = ASYRA_VALUE(ParseProgram(kHeads));
  EXPECT_THAT(
      TryShard(program, {{"dp", 3}}).status().ToString(),
      HasSubstr("axis dp of size 3 shards nothing: it is for the batch; dim 0 "
                "of %x has size 2 (3 does not divide it), dim 1 of %x has size "
                "8 (tokens), dim 2 of %x has size 28 (neither batch nor "
                "tokens); the first op it should divide is %q = matmul"));
}

// Layers are decided once; more of them cost as much each.
TEST(PlanSharding, EveryLayerHasTheSamePlan) {
  auto us = [](int64_t layers) {
    return Shard(Model("llama3-8b", {{"layers", layers}}),
                 {{"sp", 2}, {"tp", 4}});
  };
  Partitioned some = us(8), more = us(9), many = us(40);
  EXPECT_NEAR(many.plan.us - more.plan.us, 31 * (more.plan.us - some.plan.us),
              1e-6 * many.plan.us);
  std::map<std::string, int> layer = Collectives(many.local, "layer4.");
  for (int i = 1; i < 39; ++i) {
    EXPECT_EQ(Collectives(many.local, fmt::format("layer{}.", i)), layer) << i;
  }
}

}  // namespace
}  // namespace asyra
