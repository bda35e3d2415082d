// Programs of fewer layers, of forward models and of training steps.
#include "passes/analysis/shorten.h"

#include <map>

#include "absl/algorithm/container.h"
#include "gtest/gtest.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "passes/analysis/repeats.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule/order/order_search.h"
#include "passes/schedule/order/reorder.h"
#include "passes/schedule/tile/bucket_candidates.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/load_machine.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

Program Llama(int64_t layers) {
  return ASYRA_VALUE(BuiltinModel(
      "llama3-8b", {{"batch", 4}, {"seq", 1024}, {"layers", layers}}));
}

// A training step with the weights cut as Megatron does it, so that all layers
// are cut the same way.
Program Step(int64_t layers) {
  Program program = Llama(layers);
  program.mesh = *Mesh::Create({{"dp", 2}, {"tp", 4}});
  CostModel costs(*LoadMachine("h200x8"), program.mesh);
  PassContext context{.costs = &costs};
  ShardingOptions sharding{.propagate = true};
  sharding.pins =
      "^(input_ids|labels)$=0@dp;"
      ".*(q_proj|k_proj|v_proj|gate_proj|up_proj)\\.weight=0@tp;"
      ".*(o_proj|down_proj)\\.weight=1@tp;.*residual=0@dp";
  EXPECT_EQ(RunPasses(program, ShardPasses(sharding, TrainOptions{}), context),
            absl::OkStatus());
  EXPECT_EQ(RunPasses(program, FusePasses(false, "estimated"), context),
            absl::OkStatus());
  return program;
}

int Count(const Program& program, std::string_view op) {
  return static_cast<int>(absl::c_count_if(
      program.ops, [&](const Op& o) { return o.def->name == op; }));
}

TEST(Shorten, LeavesWhatDoesNotRepeat) {
  Program program = Llama(12);
  EXPECT_EQ(Shorten(program, 100).ops.size(), program.ops.size());
  int64_t cut_bytes = -1;
  Program shorter = Shorten(program, 3, &cut_bytes);
  EXPECT_EQ(cut_bytes, 0);
  EXPECT_LT(shorter.ops.size(), program.ops.size() / 3);
  for (const Repeat& repeat : FindRepeats(shorter)) {
    EXPECT_LE(repeat.count, 3);
  }
}

// Gathers of weights that are not in the layers that read them, as those of
// params in an evaluation.
TEST(Shorten, DropsWhatOnlyRemovedLayersRead) {
  std::string text = "asyra 1 local\nmesh (dp=2)\nprogram @f(%x: f32[4, 4]";
  std::string gathers, layers, x = "x";
  for (int i = 0; i < 8; ++i) {
    text += fmt::format(", %w{}: f32[4@dp, 4] weight", i);
    gathers += fmt::format(
        "  %g{0} = all_gather(%w{0}) {{dim=0, axes=dp}} : f32[4, 4]\n", i);
    layers += fmt::format(
        "  %m{0} = matmul(%{1}, %g{0}) : f32[4, 4]\n"
        "  %y{0} = tanh(%m{0}) : f32[4, 4]\n",
        i, x);
    x = fmt::format("y{}", i);
  }
  text += ") -> (f32[4, 4]) {\n" + gathers + layers + "  return %y7\n}\n";
  Program shorter = Shorten(Parse(text), 3);
  EXPECT_EQ(Verify(shorter), absl::OkStatus());
  EXPECT_EQ(Count(shorter, "matmul"), 3);
  EXPECT_EQ(Count(shorter, "all_gather"), 3);
  EXPECT_EQ(shorter.inputs.size(), 9);
}

// However many layers there are, the short program is the same, but for what
// combines all layers: the sums of squares.
TEST(Shorten, CutsForwardBackwardAndUpdatesTogether) {
  int64_t bytes_of_8 = 0, bytes_of_12 = 0;
  Program shorter_of_8 = Shorten(Step(8), 4, &bytes_of_8);
  Program step = Step(12);
  Program shorter = Shorten(step, 4, &bytes_of_12);
  EXPECT_EQ(Verify(shorter), absl::OkStatus());
  EXPECT_EQ(shorter.inputs.size(), step.inputs.size());
  for (const char* op : {"attention", "attention_grad", "matmul",
                         "matmul_wgrad", "all_reduce", "adamw"}) {
    EXPECT_EQ(Count(shorter, op), Count(shorter_of_8, op)) << op;
  }
  int kept = Count(shorter, "attention");
  EXPECT_GE(kept, 4);
  EXPECT_LE(kept, 6);
  EXPECT_EQ(Count(shorter, "attention_grad"), kept);
  // Seven matmuls and two norms a layer; table, last norm and head.
  EXPECT_EQ(Count(shorter, "adamw"), 9 * kept + 3);
  // The stash, or the gradients, of the layers removed; and a few scalars.
  auto of_layer = static_cast<double>(bytes_of_8) / (8 - kept);
  EXPECT_GT(of_layer, 0);
  EXPECT_NEAR(static_cast<double>(bytes_of_12) / (12 - kept), of_layer,
              1e-4 * of_layer);
}

// Sums of gradients of which each device has a part, those of removed layers
// too, stay states: a weight would not be partial.
TEST(Shorten, HandsOnPartialStatesOfRemovedLayers) {
  Program program = Llama(10);
  program.mesh = *Mesh::Create({{"dp", 2}});
  CostModel costs(*LoadMachine("h200x8"), program.mesh);
  PassContext context{.costs = &costs};
  TrainOptions train{
      .what = TrainOptions::What::kAccumulate, .accumulate = 2, .zero = "0"};
  ASSERT_EQ(RunPasses(program, ShardPasses({}, train), context),
            absl::OkStatus());
  Program shorter = Shorten(program, 3);
  EXPECT_LT(Count(shorter, "attention"), 10);
  EXPECT_EQ(Verify(shorter), absl::OkStatus());
  auto partial_states = [](const Program& of) {
    return absl::c_count_if(of.inputs, [&](const Input& input) {
      return input.role == InputRole::kState &&
             !of.type(input.value).partial.empty();
    });
  };
  EXPECT_GT(partial_states(program), 9 * 10);
  EXPECT_EQ(partial_states(shorter), partial_states(program));
}

// Names begin with the first layer, which backwards is the last one: keys find
// the candidates of the short program in the whole one.
TEST(Shorten, KeysOfCandidatesAreThoseOfTheWhole) {
  Program whole = Step(10);
  Program shorter = Shorten(whole, 4);
  PassContext context;
  for (Program* program : {&whole, &shorter}) {
    ASSERT_EQ(RunPasses(*program, "tile, start_collectives", context),
              absl::OkStatus());
  }
  std::vector<BucketCandidate> of_whole = BucketCandidates(whole);
  std::vector<BucketCandidate> of_shorter = BucketCandidates(shorter);
  size_t tiled = 0;
  for (const BucketCandidate& candidate : of_shorter) {
    if (candidate.join) continue;
    std::vector<std::string> name = {NameAndKey(candidate)};
    std::vector<int> found = CandidatesNamed(of_whole, name);
    ASSERT_EQ(found.size(), 1u) << candidate.name;
    EXPECT_GE(of_whole[found[0]].places, candidate.places) << candidate.name;
    ++tiled;
  }
  EXPECT_GT(tiled, 10u);
}

// A rule keeps its priorities where numbers of classes differ.
TEST(Shorten, PrioritiesOfClassesAreThoseOfTheWhole) {
  Program whole = Step(10);
  CostModel costs(*LoadMachine("h200x8"), whole.mesh);
  Program shorter = Shorten(whole, 4);
  PassContext context{.costs = &costs};
  for (Program* program : {&whole, &shorter}) {
    ASSERT_EQ(RunPasses(*program, "tile, start_collectives", context),
              absl::OkStatus());
  }
  auto search = [&](const Program& program, std::vector<OrderRule> rules) {
    return SearchOrder(CostedProgram(program, costs),
                       {{"serial", SerialOrder(program)}},
                       {.steps = 2, .rules = std::move(rules)});
  };
  OrderRule rule = search(shorter, {}).rule;
  auto classes = static_cast<int>(rule.classes.size());
  EXPECT_GT(classes, 100);
  for (int c = 0; c < classes; ++c) rule.classes[c].gain_us = 1 + c;
  OrderRule fewer = rule;
  fewer.classes.erase(fewer.classes.begin() + classes / 2);
  OrderSearchResult found = search(whole, {fewer});
  // Of what the short program has at its ends.
  EXPECT_LE(found.lost, classes / 10);
  std::map<uint64_t, double> gains;
  for (const ClassPriority& one : fewer.classes) {
    gains[one.key.exact] = one.gain_us;
  }
  int kept = 0;
  for (const ClassPriority& one : found.rule.classes) {
    auto gain = gains.find(one.key.exact);
    if (gain == gains.end()) continue;
    EXPECT_EQ(one.gain_us, gain->second);
    ++kept;
  }
  EXPECT_GE(kept, classes * 9 / 10);
  // Of attributes that decisions set, classes do not depend.
  PassContext decided = context;
  ASSERT_EQ(RunPasses(shorter, "use_copy_engines", decided), absl::OkStatus());
  EXPECT_EQ(search(shorter, {rule}).lost, 0);
}

}  // namespace
}  // namespace asyra
