#include "passes/shard/walk_keys.h"

#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/ops/attention_places.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "tests/support/costs.h"
#include "tests/support/most_different.h"
#include "tests/support/parse.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

// Returns whether devices share the rows of attention.
bool SharesRows(const Program& program) {
  return absl::c_any_of(program.ops, [&](const Op& op) {
    return op.def->name == "attention" &&
           !program.type(op.operands[0]).dims[1].axes.empty();
  });
}

int64_t CountWalks(const Program& program) {
  return absl::c_count_if(program.ops, [](const Op& op) {
    return op.def->collective == CollectiveKind::kShift;
  });
}

Program Walked(const Program& program, int64_t parts) {
  Program walked = program;
  PassContext context;
  ASYRA_CHECK_OK(RunPasses(walked, WalkPasses(parts), context));
  return walked;
}

// Attention whose rows and keys are sharded over an axis of so many devices.
Program Gathered(int64_t devices, std::string_view attrs) {
  return Parse(fmt::format(R"(asyra 1 local
mesh (sp={0})

program @f(%q: f64[2, 24@sp, 4, 2], %k: f64[2, 24@sp, 2, 2],
    %v: f64[2, 24@sp, 2, 3], %sinks: f64[4]) -> (f64[2, 24@sp, 4, 3]) {{
  %kw = all_gather(%k) {{dim=1, axes=sp}} : f64[2, 24, 2, 2]
  %vw = all_gather(%v) {{dim=1, axes=sp}} : f64[2, 24, 2, 3]
  %y = attention(%q, %kw, %vw, %sinks) {{{1}, scale=0.5}} : f64[2, 24@sp, 4, 3]
  return %y
}}
)",
                           devices, attrs));
}

TEST(WalkKeys, RowsSeeWhatTheySaw) {
  for (std::string attrs :
       {"causal=true", "causal=false", "causal=true, softcap=2.0",
        "causal=true, window=5", "window=3, window_after=9"}) {
    for (auto [devices, parts] :
         {std::pair(2, 0), std::pair(4, 0), std::pair(6, 0), std::pair(6, 2),
          std::pair(4, 2), std::pair(12, 3)}) {
      SCOPED_TRACE(fmt::format("{} over {} in {}", attrs, devices, parts));
      Program program = Gathered(devices, attrs);
      Program walked = Walked(program, parts);
      EXPECT_GT(CountWalks(walked), 0);
      EXPECT_EQ(Verify(walked), absl::OkStatus());
      EXPECT_LT(MostDifferent(program, walked), 1e-12);
    }
  }
}

// Faults of a walk change values: a part of another device, one that counts
// twice, one that is left out.
TEST(WalkKeys, PlantedFaultsAreSeen) {
  Program program = Gathered(4, "causal=true");
  Program right = Walked(program, 0);
  EXPECT_LT(MostDifferent(program, right), 1e-12);
  int planted = 0;
  for (size_t i = 0; i < right.ops.size(); ++i) {
    Program wrong = right;
    Op& op = wrong.ops[i];
    if (op.def->collective == CollectiveKind::kShift) {
      op.attrs.Set("by", op.attrs.Int("by") % 3 + 1);
    } else if (op.def->name == "attention" && op.attrs.Int("shards") > 0) {
      op.attrs.Set("shift", (op.attrs.Int("shift") + 1) % 4);
    } else if (op.def->name == "attention_merge") {
      for (int k : {0, 1}) op.operands[2 + k] = op.operands[k];
    } else {
      continue;
    }
    ++planted;
    EXPECT_GT(MostDifferent(program, wrong), 1e-3)
        << right.value_name(op.results[0]);
  }
  // Keys and values of 3 parts, 4 attentions, a merge.
  EXPECT_EQ(planted, 11);
}

TEST(WalkKeys, WindowsFetchWhatTheySee) {
  Program near = Walked(Gathered(6, "causal=true, window=5"), 0);
  EXPECT_EQ(CountWalks(near), 2);
  Program far = Walked(Gathered(6, "causal=true, window=6"), 0);
  EXPECT_EQ(CountWalks(far), 4);
}

TEST(WalkKeys, LeavesWhatItCannotTake) {
  Program program = Gathered(4, "causal=true, offset=1");
  PassContext context;
  ASYRA_CHECK_OK(RunPasses(program, WalkPasses(0), context));
  EXPECT_EQ(CountWalks(program), 0);
  ASSERT_FALSE(context.remarks.empty());
  EXPECT_THAT(context.remarks.back(), HasSubstr("no attention without mask"));
  // 3 parts of 4 devices.
  Program four = Gathered(4, "causal=true");
  ASYRA_CHECK_OK(RunPasses(four, WalkPasses(3), context));
  EXPECT_EQ(CountWalks(four), 0);
  EXPECT_THAT(context.remarks.back(), HasSubstr("so that 3 parts walk"));
  using Form = AttentionForm;
  EXPECT_THAT(AttentionFormsOf(four, 8), testing::ElementsAre(Form{2, 1}));
  EXPECT_THAT(AttentionFormsOf(four, 2),
              testing::ElementsAre(Form{1, 2}, Form{2, 1}, Form{2, 2}));
  EXPECT_THAT(AttentionFormsOf(four, 8, /*least_memory=*/true),
              testing::ElementsAre(Form{2, 1}, Form{4, 1, true}));
}

// Of two attentions with gradients keys of one walk, those of the other cannot.
TEST(WalkKeys, LeavesTheGradientsOfOthers) {
  std::string inputs, results, types, ops;
  for (std::string axis : {"sp", "rp"}) {
    std::string rows = fmt::format("f64[1, 12@{}, 2, 2]", axis);
    inputs += fmt::format("{0}%q{1}: {2}, %k{1}: {2}, %dy{1}: {2}",
                          inputs.empty() ? "" : ", ", axis, rows);
    results += fmt::format("{}%d{}", results.empty() ? "" : ", ", axis);
    types += fmt::format("{}f64[1, 12@{}, 4]", types.empty() ? "" : ", ", axis);
    ops += fmt::format(
        R"(  %w{0} = all_gather(%k{0}) {{dim=1, axes={0}}} : f64[1, 12, 2, 2]
  %y{0}, %l{0} = attention(%q{0}, %w{0}, %w{0}) {{scale=0.5, log_sums=true}} : {1}, f64[1, 2, 12@{0}]
  %dq{0}, %dk{0}, %dv{0} = attention_grad(%q{0}, %w{0}, %w{0}, %y{0}, %l{0}, %dy{0}) {{of="qkv", scale=0.5}} : {1}, f64[1, 12, 2, 2] partial({0}), f64[1, 12, 2, 2] partial({0})
  %dkv{0} = add(%dk{0}, %dv{0}) : f64[1, 12, 2, 2] partial({0})
  %flat{0} = reshape(%dkv{0}) {{shape=[1, 12, 4]}} : f64[1, 12, 4] partial({0})
  %d{0} = reduce_scatter(%flat{0}) {{dim=1, axes={0}}} : f64[1, 12@{0}, 4]
)",
        axis, rows);
  }
  Program program = Parse(
      fmt::format("asyra 1 local\nmesh (sp=4, rp=3)\n\nprogram @f({}) -> ({}) "
                  "{{\n{}  return {}\n}}\n",
                  inputs, types, ops, results));
  for (auto [parts, walks] : {std::pair(2, 2), std::pair(3, 4)}) {
    Program walked = Walked(program, parts);
    // Keys there, and their gradients back.
    EXPECT_EQ(CountWalks(walked), walks) << parts;
    EXPECT_EQ(Verify(walked), absl::OkStatus());
    EXPECT_LT(MostDifferent(program, walked), 1e-12);
  }
}

// Forward and gradients of models on meshes, in stripes and not.
class WalkedModel : public testing::TestWithParam<std::string> {};

TEST_P(WalkedModel, IsTheSameOnMeshes) {
  int walked = 0;
  TrainOptions train;
  train.what = TrainOptions::What::kGradients;
  for (const std::vector<Mesh::Axis>& axes :
       {std::vector<Mesh::Axis>{{"sp", 8}},
        {{"dp", 2}, {"sp", 8}},
        {{"sp.context", 4}, {"sp", 2}}}) {
    Mesh mesh = ASYRA_VALUE(Mesh::Create(axes));
    Program model = ASYRA_VALUE(
        BuiltinModel(GetParam(), {{"layers", 1}, {"batch", 2}, {"seq", 16}}));
    PassContext context;
    ASYRA_CHECK_OK(RunPasses(
        model, {MakePass("set_dtype", {{"dtype", std::string("f64")}})},
        context));
    for (auto [stripes, gradients, parts] :
         {std::tuple("always", true, 0), std::tuple("always", true, 2),
          std::tuple("never", true, 0), std::tuple("never", false, 2)}) {
      SCOPED_TRACE(fmt::format("{}, stripes {}, gradients {}, parts {}",
                               ToString(mesh), stripes, gradients, parts));
      Program single = model, local = model;
      local.mesh = mesh;
      CostModel costs = Costs(local);
      PassContext on_mesh;
      on_mesh.costs = &costs;
      std::optional<TrainOptions> options;
      if (gradients) options = train;
      ShardingOptions sharding = {.stripes = stripes};
      bool natural = stripes == std::string("never");
      if (natural && mesh.Find("sp.context") < 0) {
        sharding.pins = ".*attention=1@sp";
      }
      ASYRA_CHECK_OK(RunPasses(local, ShardPasses(sharding, options), on_mesh));
      // Some plans keep so small an attention whole.
      bool shares_rows = SharesRows(local);
      ASYRA_CHECK_OK(RunPasses(local, WalkPasses(parts), on_mesh));
      if (gradients) {
        ASYRA_CHECK_OK(RunPasses(single, TrainPasses(train), context));
      }
      // A part of an axis is not split again.
      bool walks = shares_rows && (parts == 0 || mesh.Find("sp.context") < 0);
      EXPECT_EQ(CountWalks(local) > 0, walks);
      walked += walks ? 1 : 0;
      EXPECT_EQ(Verify(local), absl::OkStatus());
      EXPECT_LT(MostDifferent(single, local), 1e-12);
    }
    if (kSanitized) break;  // of any mesh, the same code
  }
  EXPECT_GE(walked, kSanitized ? 3 : 6);
}

INSTANTIATE_TEST_SUITE_P(Builtin, WalkedModel,
                         testing::Values("llama3-tiny", "gpt3-tiny"),
                         [](const auto& info) {
                           std::string name = info.param;
                           absl::c_replace(name, '-', '_');
                           return name;
                         });

// Places ----------------------------------------------------------------------

AttrMap PlaceAttrs(int64_t shards, int64_t shift, int64_t runs, bool causal) {
  AttrMap attrs;
  for (const AttrDef& def : FindOp("attention")->attrs) {
    if (def.default_value.has_value()) attrs.Set(def.name, *def.default_value);
  }
  attrs.Set("scale", 1.0);
  attrs.Set("shards", shards);
  attrs.Set("shift", shift);
  attrs.Set("runs", runs);
  attrs.Set("causal", causal);
  return attrs;
}

TEST(AttentionPlaces, PrefixesAreWhatRowsSee) {
  constexpr int64_t kRun = 3;
  for (int64_t shards : {2, 3, 5}) {
    for (int64_t shift = 0; shift < shards; ++shift) {
      for (int64_t at = 0; at < shards; ++at) {
        ops::KeyShard shard = ops::KeyShardAt(
            PlaceAttrs(shards, shift, shards, true), at, 2 * kRun * shards);
        ASSERT_TRUE(shard.striped);
        for (int64_t row : {at * kRun, (2 * shards - 1 - at) * kRun}) {
          ops::KeyPrefix prefix = ops::PrefixOf(shard, row, true);
          for (int64_t i = 0; i < kRun; ++i) {
            for (int64_t t = 0; t < shard.keys; ++t) {
              bool sees = t < prefix.keys && t <= prefix.first_row + i;
              EXPECT_EQ(sees, shard.Place(t) <= row + i);
            }
          }
        }
      }
    }
  }
}

// Pairs are those of the device that has most, or of rows in runs the mean.
TEST(AttentionPlaces, WorkCountsThePairsOfAShard) {
  constexpr int64_t kRun = 4;
  for (int64_t shards : {2, 4}) {
    for (int64_t shift = 0; shift < shards; ++shift) {
      for (int64_t runs : {int64_t{0}, shards, -shards}) {
        AttrMap attrs = PlaceAttrs(shards, shift, runs, true);
        int64_t rows = runs == 0 ? 2 * kRun : kRun, most = 0, sum = 0;
        for (int64_t at = 0; at < shards; ++at) {
          ops::KeyShard shard = ops::KeyShardAt(attrs, at, 2 * kRun * shards);
          int64_t first = runs == 0  ? at * 2 * kRun
                          : runs > 0 ? at * kRun
                                     : (2 * shards - 1 - at) * kRun;
          int64_t pairs = 0;
          for (int64_t i = 0; i < rows; ++i) {
            for (int64_t t = 0; t < shard.keys; ++t) {
              pairs += shard.Place(t) <= first + i ? 1 : 0;
            }
          }
          most = std::max(most, pairs);
          sum += pairs;
        }
        std::vector<Type> local = {Type(DType::kF32, {1, rows, 1, 2}),
                                   Type(DType::kF32, {1, 2 * kRun, 1, 2}),
                                   Type(DType::kF32, {1, 2 * kRun, 1, 2})};
        double want =
            runs == 0 ? static_cast<double>(most)
                      : static_cast<double>(sum) / static_cast<double>(shards);
        EXPECT_DOUBLE_EQ(
            ops::VisiblePairs(OpCall{*FindOp("attention"), attrs, local, {}}),
            want)
            << shards << " " << shift << " " << runs;
      }
    }
  }
}

}  // namespace
}  // namespace asyra
