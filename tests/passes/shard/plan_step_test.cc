// Collectives of training steps, by layer and phase, beside those that
// Megatron-LM, DeepSpeed-Ulysses and DistributedDataParallel write by hand.
#include "passes/shard/plan_step.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/shard/partition.h"
#include "passes/shard/plan_sharding.h"
#include "passes/train/step_phase.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

using Counts = std::map<std::string, int>;

struct Step {
  Program local;
  std::vector<StepPhase> phases;

  // "op over axes" of the collectives in that phase whose values have names
  // that begin so.
  Counts Of(StepPhase phase, std::string_view prefix) const {
    Counts counts;
    for (size_t i = 0; i < local.ops.size(); ++i) {
      const Op& op = local.ops[i];
      const std::string& name = local.value_name(op.results[0]);
      if (!op.is_collective() || phases[i] != phase ||
          !name.starts_with(prefix)) {
        continue;
      }
      ++counts[fmt::format(
          "{} over {}", op.def->name,
          AxesToString(op.attrs.Get<AxisList>("axes"), local.mesh))];
    }
    return counts;
  }
  Counts Forward(std::string_view prefix) const {
    return Of(StepPhase::kForward, prefix);
  }
  Counts Backward(std::string_view prefix) const {
    return Of(StepPhase::kBackward, prefix);
  }
  std::string TypeOf(std::string_view name) const {
    ValueId value = local.FindValue(name);
    return value == kNoValue ? "no such value"
                             : ToString(local.type(value), local.mesh);
  }
};

using Sizes = std::map<std::string, int64_t>;

// Under the costs of a machine, as asyra-opt does.
Step Shard(const std::string& model, const Sizes& sizes,
           std::vector<Mesh::Axis> axes, PlanOptions options = {},
           std::vector<std::string> expert_axes = {},
           const TrainOptions& train = {}) {
  Program program = ASYRA_VALUE(BuiltinModel(model, sizes));
  program.mesh = ASYRA_VALUE(Mesh::Create(std::move(axes)));
  for (const std::string& axis : expert_axes) {
    options.expert_axes.push_back(program.mesh.Find(axis));
  }
  PassContext context;
  ASYRA_CHECK_OK(
      RunPasses(program, {MakePass("merge_expert_rows")}, context, {}));
  ASYRA_CHECK_OK(RunPasses(program, TrainPasses(train), context, {}));
  Machine machine = ASYRA_VALUE(LoadMachine("h200x8"));
  CostModel costs(machine, program.mesh);
  options.costs.model = &costs;
  ShardingPlan plan = ASYRA_VALUE(PlanSharding(program, options, context));
  Program local = ASYRA_VALUE(Partition(program, plan, options.costs));
  EXPECT_EQ(Verify(local), absl::OkStatus());
  std::vector<StepPhase> phases = PhasesOf(local);
  return {std::move(local), std::move(phases)};
}

Step Llama(std::vector<Mesh::Axis> axes,
           TpStrategy tp_strategy = TpStrategy::kAny, int64_t layers = 4) {
  PlanOptions options;
  options.tp_strategy = tp_strategy;
  return Shard("llama3-8b", {{"layers", layers}}, std::move(axes), options);
}

// Megatron-LM with sequence parallelism, inputs of backward kept. Gradients of
// the two norms' weights are sums over tokens.
TEST(PlanStep, SequenceParallelNormsGatherAndScatterTwiceEachWay) {
  Step llama = Llama({{"tp", 4}}, TpStrategy::kSequence);
  for (int i = 0; i < 4; ++i) {
    std::string layer = fmt::format("layer{}.", i);
    EXPECT_THAT(llama.Forward(layer),
                ElementsAre(Pair("all_gather over tp", 2),
                            Pair("reduce_scatter over tp", 2)));
    EXPECT_THAT(llama.Backward(layer),
                UnorderedElementsAre(Pair("all_gather over tp", 2),
                                     Pair("reduce_scatter over tp", 2),
                                     Pair("all_reduce over tp", 2)));
    EXPECT_EQ(llama.TypeOf(layer + "down_proj.weight"), "f32[4096, 14336@tp]");
    EXPECT_EQ(llama.TypeOf(layer + "gate_proj.weight.m"),
              "f32[14336@tp, 4096]");
  }
}

// Megatron-LM without: f and g, each an all_reduce one way.
TEST(PlanStep, ReplicatedNormsReduceTwiceEachWay) {
  Step llama = Llama({{"tp", 4}}, TpStrategy::kReplicated);
  for (int i = 0; i < 4; ++i) {
    std::string layer = fmt::format("layer{}.", i);
    EXPECT_THAT(llama.Forward(layer),
                ElementsAre(Pair("all_reduce over tp", 2)));
    EXPECT_THAT(llama.Backward(layer),
                ElementsAre(Pair("all_reduce over tp", 2)));
  }
}

// DeepSpeed-Ulysses: q, k, v and the output. Nine weights are reduced once, and
// nothing is exchanged for their gradients.
TEST(PlanStep, SequenceParallelAttentionExchangesFourTimesEachWay) {
  Step llama = Llama({{"sp", 4}});
  for (int i = 0; i < 4; ++i) {
    std::string layer = fmt::format("layer{}.", i);
    EXPECT_THAT(llama.Forward(layer),
                ElementsAre(Pair("all_to_all over sp", 4)));
    EXPECT_THAT(llama.Backward(layer),
                UnorderedElementsAre(Pair("all_reduce over sp", 9),
                                     Pair("all_to_all over sp", 4)));
  }
  EXPECT_EQ(llama.TypeOf("layer2.up_proj.weight.grad"),
            "f32[14336, 4096] partial(sp)");
}

// DistributedDataParallel.
TEST(PlanStep, DataParallelGradientsAreReducedOnceEach) {
  Step llama = Llama({{"dp", 2}});
  for (int i = 0; i < 4; ++i) {
    std::string layer = fmt::format("layer{}.", i);
    EXPECT_THAT(llama.Forward(layer), ElementsAre());
    EXPECT_THAT(llama.Backward(layer),
                ElementsAre(Pair("all_reduce over dp", 9)));
  }
}

TEST(PlanStep, TensorAndSequenceTogether) {
  Step llama = Llama({{"sp", 2}, {"tp", 4}}, TpStrategy::kSequence);
  EXPECT_THAT(llama.Forward("layer2."),
              UnorderedElementsAre(Pair("all_gather over tp", 2),
                                   Pair("reduce_scatter over tp", 2),
                                   Pair("all_to_all over sp", 4)));
  EXPECT_THAT(llama.Backward("layer2."),
              UnorderedElementsAre(Pair("all_gather over tp", 2),
                                   Pair("reduce_scatter over tp", 2),
                                   Pair("all_to_all over sp", 4),
                                   Pair("all_reduce over sp", 7),
                                   Pair("all_reduce over (sp,tp)", 2)));
}

// Tokens go to experts and back, each way once. Experts' weights have no
// reduction: each device has all tokens of its own.
TEST(PlanStep, ExpertsExchangeTokensTwiceEachWay) {
  Step qwen = Shard("qwen3-30b-a3b", {{"layers", 3}, {"batch", 4}}, {{"dp", 4}},
                    {}, {"dp"});
  for (int i = 0; i < 3; ++i) {
    std::string layer = fmt::format("layer{}.", i);
    EXPECT_THAT(qwen.Forward(layer),
                ElementsAre(Pair("all_to_all over dp", 2)));
    EXPECT_THAT(qwen.Backward(layer),
                UnorderedElementsAre(Pair("all_to_all over dp", 2),
                                     Pair("all_reduce over dp", 9)));
    EXPECT_EQ(qwen.TypeOf(layer + "experts.up_proj.weight.m"),
              "f32[128@dp, 768, 2048]");
  }
}

// Vocabulary-parallel cross entropy: of the loss and its gradient, a number for
// each token and device travels at most, and no logits.
TEST(PlanStep, LogitsAreNotGathered) {
  for (TpStrategy tp_strategy :
       {TpStrategy::kSequence, TpStrategy::kReplicated}) {
    Step llama = Llama({{"sp", 2}, {"tp", 4}}, tp_strategy);
    EXPECT_EQ(llama.TypeOf("logits"), "bf16[2, 8192@sp, 128256@tp]");
    EXPECT_EQ(llama.TypeOf("logits.grad"), "bf16[2, 8192@sp, 128256@tp]");
    int count = 0;
    for (const Op& op : llama.local.ops) {
      std::string_view name = llama.local.value_name(op.results[0]);
      bool of_loss = name.starts_with("loss") || name.starts_with("logits.1");
      if (!op.is_collective() || !of_loss) continue;
      EXPECT_LE(llama.local.type(op.operands[0]).num_elements(), 2 * 8192 * 4)
          << name;
      ++count;
    }
    EXPECT_GE(count, 2);  // the maxima and sums, and the labels' own
  }
}

Step WithZero(std::optional<int> zero, std::vector<Mesh::Axis> axes,
              const Sizes& sizes = {{"layers", 3}}) {
  PlanOptions options;
  options.tp_strategy = TpStrategy::kSequence;
  options.zero = zero;
  return Shard("llama3-8b", sizes, std::move(axes), options);
}

// Megatron-LM's distributed optimizer. Weights of norms stay whole.
TEST(PlanStep, ZeroCutsStatesThenGradients) {
  Step one = WithZero(1, {{"dp", 2}});
  EXPECT_THAT(one.Backward("layer1."),
              ElementsAre(Pair("all_reduce over dp", 9)));
  EXPECT_THAT(one.Of(StepPhase::kUpdate, "layer1."),
              ElementsAre(Pair("all_gather over dp", 7)));
  Step two = WithZero(2, {{"dp", 2}});
  EXPECT_THAT(two.Backward("layer1."),
              UnorderedElementsAre(Pair("all_reduce over dp", 2),
                                   Pair("reduce_scatter over dp", 7)));
  EXPECT_THAT(two.Of(StepPhase::kUpdate, "layer1."),
              ElementsAre(Pair("all_gather over dp", 7)));
  for (const Step& step : {one, two}) {
    EXPECT_EQ(step.TypeOf("layer1.up_proj.weight"), "f32[14336, 4096]");
    EXPECT_EQ(step.TypeOf("layer1.up_proj.weight.v"), "f32[14336@dp, 4096]");
    EXPECT_EQ(step.TypeOf("layer1.input_norm.weight.v"), "f32[4096]");
  }
}

// Of each batch of a step: what it adds to, and its sum, are cut as the
// gradient is, and nothing is gathered for them.
TEST(PlanStep, SumsOfBatchesAreCutAsGradientsAre) {
  using What = TrainOptions::What;
  for (What what : {What::kAccumulate, What::kStep}) {
    for (int zero : {0, 1, 2, 3}) {
      SCOPED_TRACE(zero);
      PlanOptions options;
      options.zero = zero;
      Step step =
          Shard("llama3-8b", {{"layers", 3}, {"batch", 2}}, {{"dp", 2}},
                options, {}, TrainOptions{.what = what, .accumulate = 4});
      Counts expected = {{"all_reduce over dp", 9}};
      if (zero >= 2) {
        expected = {{"all_reduce over dp", 2}, {"reduce_scatter over dp", 7}};
      }
      if (zero == 3) expected["all_gather over dp"] = 7;
      EXPECT_EQ(step.Backward("layer1."), expected);
      const char* cut = zero >= 2 ? "f32[14336@dp, 4096]" : "f32[14336, 4096]";
      for (const char* name : {"accumulated", "total"}) {
        EXPECT_EQ(
            step.TypeOf(fmt::format("layer1.up_proj.weight.grad.{}", name)),
            cut);
        EXPECT_EQ(
            step.TypeOf(fmt::format("layer1.input_norm.weight.grad.{}", name)),
            "f32[4096]");
      }
    }
  }
}

// FSDP: each parameter is gathered in the model's type, forward and once more
// in backward, and its gradient scattered.
TEST(PlanStep, ZeroThreeGathersParametersTwice) {
  Step step = WithZero(3, {{"dp", 2}});
  for (int i = 0; i < 3; ++i) {
    std::string layer = fmt::format("layer{}.", i);
    EXPECT_THAT(step.Forward(layer),
                ElementsAre(Pair("all_gather over dp", 7)));
    EXPECT_THAT(step.Backward(layer),
                UnorderedElementsAre(Pair("all_gather over dp", 7),
                                     Pair("all_reduce over dp", 2),
                                     Pair("reduce_scatter over dp", 7)));
    EXPECT_THAT(step.Of(StepPhase::kUpdate, layer), ElementsAre());
  }
  EXPECT_EQ(step.TypeOf("layer1.up_proj.weight"), "f32[14336@dp, 4096]");
  EXPECT_EQ(step.TypeOf("layer1.up_proj.weight.bf16.all_gather"),
            "bf16[14336, 4096]");
}

// Beside tensor parallelism, and over the tokens' axis.
TEST(PlanStep, ZeroCutsWhatOtherAxesLeave) {
  Step step = WithZero(3, {{"dp", 2}, {"sp", 2}, {"tp", 2}});
  EXPECT_EQ(step.TypeOf("layer1.up_proj.weight"),
            "f32[14336@(tp,dp,sp), 4096]");
  EXPECT_EQ(step.TypeOf("layer1.down_proj.weight.m"),
            "f32[4096@(dp,sp), 14336@tp]");
}

// An axis for experts shards tokens of all other layers, which it leaves whole.
TEST(PlanStep, ZeroCutsOverTheAxisOfExpertsWhatItLeaves) {
  PlanOptions options;
  options.zero = 3;
  Step step = Shard("qwen3-30b-a3b",
                    {{"layers", 2}, {"batch", 8}, {"vocabulary", 8192}},
                    {{"ep", 4}, {"tp", 2}}, options);
  EXPECT_EQ(step.TypeOf("layer1.o_proj.weight"), "f32[2048@ep, 4096@tp]");
  EXPECT_EQ(step.TypeOf("embed_tokens.weight.m"), "f32[8192@ep, 2048@tp]");
  EXPECT_EQ(step.TypeOf("layer1.experts.down_proj.weight"),
            "f32[128@ep, 2048@tp, 768]");
}

// The table's gradient is summed by features over both axes. Those of the
// experts' axis are the inner ones, so that it alone is gathered over.
TEST(PlanStep, ExchangesOverTheAxisOfExpertsLeaveModelAxes) {
  PlanOptions options;
  options.zero = 0;
  Step step =
      Shard("qwen3-30b-a3b", {{"layers", 1}, {"batch", 16}, {"seq", 32768}},
            {{"sp", 2}, {"ep", 8}, {"tp", 2}}, options);
  EXPECT_THAT(step.Of(StepPhase::kBackward, "embed_tokens"),
              UnorderedElementsAre(Pair("all_reduce over sp", 1),
                                   Pair("all_gather over ep", 1)));
}

// 10 G parameters of 16 bytes do not fit into 140 GiB with their activations.
TEST(PlanStep, ZeroIsChosenByMemory) {
  EXPECT_EQ(WithZero(std::nullopt, {{"dp", 2}}, {{"layers", 3}})
                .TypeOf("layer1.up_proj.weight.v"),
            "f32[14336, 4096]");
  Step whole = WithZero(std::nullopt, {{"dp", 2}}, {{"layers", 40}});
  EXPECT_EQ(whole.TypeOf("layer1.up_proj.weight.v"), "f32[14336@dp, 4096]");
}

// Layers are decided once: of many, all but the last of backward are equal.
TEST(PlanStep, EveryLayerHasTheSamePlan) {
  Step llama = Llama({{"sp", 2}, {"tp", 4}}, TpStrategy::kAny, 12);
  Counts forward = llama.Forward("layer1."),
         backward = llama.Backward("layer1.");
  for (int i = 1; i < 12; ++i) {
    EXPECT_EQ(llama.Forward(fmt::format("layer{}.", i)), forward) << i;
    EXPECT_EQ(llama.Backward(fmt::format("layer{}.", i)), backward) << i;
  }
}

// Of all numbers that the norm needs from other devices, one is sent.
TEST(PlanStep, TheNormIsReducedOnce) {
  Step llama = Llama({{"sp", 2}, {"tp", 4}});
  EXPECT_THAT(llama.Of(StepPhase::kUpdate, ""),
              ElementsAre(Pair("all_reduce over tp", 1)));
}

}  // namespace
}  // namespace asyra
