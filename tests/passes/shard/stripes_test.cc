#include "passes/shard/stripes.h"

#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/shard/stripe_sequence.h"
#include "tests/support/costs.h"
#include "tests/support/most_different.h"
#include "tests/support/parse.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

Mesh MeshOf(std::vector<Mesh::Axis> axes) {
  return ASYRA_VALUE(Mesh::Create(std::move(axes)));
}

int64_t CountOf(const Program& program, std::string_view name) {
  int64_t count = 0;
  for (const Op& op : program.ops) count += op.def->name == name ? 1 : 0;
  return count;
}

// The program with one attention over rows that see other keys each, and its
// places for so many devices.
Program Attention(std::string_view attrs, int64_t rows) {
  return Parse(fmt::format(R"(asyra 1 global
program @f(%q: f64[2, {0}, 2, 4], %k: f64[2, 24, 1, 4]) -> (f64[2, {0}, 2, 4]) {{
  %y = attention(%q, %k, %k) {{{1}, scale=0.5}} : f64[2, {0}, 2, 4]
  return %y
}}
)",
                           rows, attrs));
}

TEST(StripeSequence, RowsSeeWhatTheySaw) {
  for (std::string attrs :
       {"causal=true", "window=3", "window_after=2, window=4",
        "causal=true, offset=8", "causal=true, window=5, offset=-3"}) {
    for (int64_t devices : {2, 3, 4, 6}) {
      SCOPED_TRACE(fmt::format("{} over {}", attrs, devices));
      Program program = Attention(attrs, 24);
      auto striped = ASYRA_VALUE(StripeSequence(program, devices));
      ASSERT_TRUE(striped.has_value());
      EXPECT_EQ(Verify(*striped), absl::OkStatus());
      EXPECT_EQ(CountOf(*striped, "attention"), 2);
      EXPECT_EQ(MostDifferent(program, *striped), 0);
      // One stripe further, and halves the other way round.
      for (const char* attr : {"offset", "runs"}) {
        Program wrong = *striped;
        for (Op& op : wrong.ops) {
          if (op.def->name != "attention") continue;
          int64_t is = op.attrs.Int(attr);
          bool runs = attr == std::string("runs");
          op.attrs.Set(attr, runs ? -is : is + 12 / devices);
        }
        EXPECT_GT(MostDifferent(program, wrong), 1e-3) << attr;
      }
    }
  }
}

TEST(StripeSequence, NeedsRowsThatSeeOtherKeysAndDivide) {
  auto stripes = [](std::string_view attrs, int64_t rows, int64_t devices) {
    return ASYRA_VALUE(StripeSequence(Attention(attrs, rows), devices))
        .has_value();
  };
  EXPECT_TRUE(stripes("causal=true", 12, 3));
  EXPECT_FALSE(stripes("causal=false", 12, 3));
  EXPECT_FALSE(stripes("causal=true", 12, 4));
  EXPECT_FALSE(stripes("causal=true", 1, 2));
}

// Logits become natural before they are made: they are larger than what they
// are made of.
TEST(StripeSequence, EndsBeforeLogits) {
  Program model = ASYRA_VALUE(BuiltinModel("llama3-tiny", {}));
  auto striped = ASYRA_VALUE(StripeSequence(model, 4));
  ASSERT_TRUE(striped.has_value());
  EXPECT_EQ(striped->ops.back().def->name, "matmul");
  // Ids, and two tables of rotations.
  EXPECT_EQ(CountOf(*striped, "stripe"), 3);
  // Keys and values of each layer, and the last hidden states.
  EXPECT_EQ(CountOf(*striped, "unstripe"), CountOf(model, "attention") * 2 + 1);
}

// Forward and gradients of whole models on meshes.
class StripedModel : public testing::TestWithParam<std::string> {};

TEST_P(StripedModel, IsTheSameOnMeshes) {
  TrainOptions train;
  train.what = TrainOptions::What::kGradients;
  for (const Mesh& mesh : {MeshOf({{"sp", 4}}), MeshOf({{"sp", 2}, {"tp", 2}}),
                           MeshOf({{"dp", 2}, {"sp", 2}}),
                           MeshOf({{"sp.context", 2}, {"sp", 2}})}) {
    SCOPED_TRACE(ToString(mesh));
    Program model = ASYRA_VALUE(
        BuiltinModel(GetParam(), {{"layers", 1}, {"batch", 2}, {"seq", 8}}));
    PassContext context;
    ASYRA_CHECK_OK(RunPasses(
        model, {MakePass("set_dtype", {{"dtype", std::string("f64")}})},
        context));
    for (bool gradients : {false, true}) {
      Program single = model, local = model;
      local.mesh = mesh;
      CostModel costs = Costs(local);
      PassContext on_mesh;
      on_mesh.costs = &costs;
      std::optional<TrainOptions> options;
      if (gradients) options = train;
      ASYRA_CHECK_OK(RunPasses(
          local, ShardPasses({.stripes = "always"}, options), on_mesh));
      if (gradients) {
        ASYRA_CHECK_OK(RunPasses(single, TrainPasses(train), context));
      }
      EXPECT_GT(CountOf(local, "stripe"), 0);
      EXPECT_LT(MostDifferent(single, local), 1e-12);
    }
    if (kSanitized) break;  // of any mesh, the same code
  }
}

INSTANTIATE_TEST_SUITE_P(Builtin, StripedModel,
                         testing::Values("llama3-tiny", "gpt3-tiny",
                                         "qwen3-moe-tiny"),
                         [](const auto& info) {
                           std::string name = info.param;
                           absl::c_replace(name, '-', '_');
                           return name;
                         });

// The decision of pass stripe_sequence on a model of real widths.
std::string Decision(const Mesh::Axis& axis, Stripes when, bool* striped) {
  Program model = ASYRA_VALUE(BuiltinModel(
      "llama3-8b",
      {{"layers", 1}, {"batch", 1}, {"seq", 32768}, {"logits", 1}}));
  model.mesh = MeshOf({axis});
  CostModel costs = Costs(model);
  PassContext context;
  context.costs = &costs;
  StripeOptions options;
  options.plan.costs.model = &costs;
  options.when = when;
  auto changed = StripeSequencePass(model, options, context);
  if (!changed.ok()) return std::string(changed.status().message());
  *striped = CountOf(model, "stripe") > 0;
  EXPECT_EQ(*changed, *striped);
  return context.remarks.empty() ? "" : context.remarks.back();
}

TEST(StripeSequence, IsTakenWhereItPays) {
  bool striped = false;
  // Heads do not divide: rows are shared.
  EXPECT_THAT(Decision({"sp", 16}, Stripes::kAuto, &striped),
              HasSubstr("tokens are striped over 16 devices: by a sum"));
  EXPECT_TRUE(striped);
  // Each device has heads of its own, which see all alike.
  EXPECT_THAT(Decision({"sp", 8}, Stripes::kAuto, &striped),
              HasSubstr("tokens are not striped over 8 devices"));
  EXPECT_FALSE(striped);
  EXPECT_EQ(Decision({"sp", 16}, Stripes::kNever, &striped), "");
  EXPECT_FALSE(striped);
  EXPECT_THAT(Decision({"sp", 8}, Stripes::kAlways, &striped),
              HasSubstr("tokens are striped over 8 devices"));
  EXPECT_TRUE(striped);
  EXPECT_THAT(Decision({"tp", 8}, Stripes::kAlways, &striped),
              HasSubstr("no axis of the mesh shards tokens"));
}

}  // namespace
}  // namespace asyra
