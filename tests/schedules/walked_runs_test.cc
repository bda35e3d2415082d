// Keys that walk, on cpu ranks that are late at random: forward and gradients,
// with collectives as early as they can be, against one device.
#include "executor/cpu/run_on_cpu.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "tests/support/costs.h"
#include "tests/support/parse.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

using Axes = std::vector<Mesh::Axis>;

struct Walk {
  Axes axes;
  std::string stripes;
  int64_t parts = 0;
  bool merge_each = false;
};

double RelativeError(const Tensor& got, const Tensor& want) {
  double largest = 1e-3, error = 0;
  for (int64_t k = 0; k < want.num_elements(); ++k) {
    largest = std::max(largest, std::abs(want.Get(k)));
    double here = std::abs(want.Get(k) - got.Get(k));
    error = here <= error ? error : here;  // NaN counts
  }
  return error / largest;
}

void ExpectSameWalking(const Walk& walk, const std::string& dtype,
                       double tolerance) {
  Mesh mesh = ASYRA_VALUE(Mesh::Create(walk.axes));
  SCOPED_TRACE(fmt::format("{} {} stripes {} parts {} merge_each {}", dtype,
                           ToString(mesh), walk.stripes, walk.parts,
                           walk.merge_each));
  TrainOptions train;
  train.what = TrainOptions::What::kGradients;
  Program single = ASYRA_VALUE(
      BuiltinModel("llama3-tiny", {{"layers", 1}, {"batch", 2}, {"seq", 32}}));
  PassContext plain, on_mesh;
  ASYRA_CHECK_OK(
      RunPasses(single, {MakePass("set_dtype", {{"dtype", dtype}})}, plain));
  Program local = single;
  local.mesh = mesh;
  CostModel costs = Costs(local);
  on_mesh.costs = &costs;
  ASYRA_CHECK_OK(RunPasses(single, TrainPasses(train), plain));
  ShardingOptions sharding = {.stripes = walk.stripes};
  if (walk.stripes == "never") sharding.pins = ".*attention=1@sp";
  ASYRA_CHECK_OK(RunPasses(local, ShardPasses(sharding, train), on_mesh));
  ASYRA_CHECK_OK(
      RunPasses(local, WalkPasses(walk.parts, walk.merge_each), on_mesh));
  EXPECT_TRUE(absl::c_any_of(local.ops, [](const Op& op) {
    return op.def->collective == CollectiveKind::kShift;
  }));
  ASYRA_CHECK_OK(RunPasses(local,
                           {MakePass("start_collectives", {{"early", true}}),
                            MakePass("plan_memory", {})},
                           on_mesh));
  std::vector<Tensor> inputs = RandomInputs(single, 11, 64);
  RunResult run = ASYRA_VALUE(RunOnCpu(
      local, inputs,
      {.inject_jitter_us = 200, .repeat = 3, .check_deterministic = true}));
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(single, inputs));
  ASSERT_EQ(run.outputs.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_LE(RelativeError(run.outputs[i], want[i]), tolerance)
        << "output " << i;
  }
}

TEST(WalkedRuns, AreTheSameOnRanks) {
  ExpectSameWalking({{{"sp", 4}}, "always"}, "f32", 2e-5);
  if (kSanitized) return;  // of any mesh, the same code
  for (const Walk& walk :
       {Walk{{{"sp", 2}}, "always"}, Walk{{{"sp", 8}}, "always", 2},
        Walk{{{"sp", 8}}, "never"}, Walk{{{"sp", 16}}, "always", 4},
        Walk{{{"dp", 2}, {"sp", 4}}, "never", 2},
        Walk{{{"sp.context", 4}, {"sp", 2}}, "always"},
        Walk{{{"sp", 8}}, "always", 0, true},
        Walk{{{"sp", 8}}, "never", 0, true},
        Walk{{{"sp", 8}}, "always", 4, true}}) {
    ExpectSameWalking(walk, "f64", 1e-12);
    ExpectSameWalking(walk, "f32", 2e-5);
  }
}

Program SharedAttention(std::string_view dtype) {
  return Parse(fmt::format(R"(asyra 1 local
mesh (sp=4)

program @f(%q: {0}[2, 64@sp, 8, 16], %k: {0}[2, 64@sp, 4, 16],
    %v: {0}[2, 64@sp, 4, 16]) -> ({0}[2, 64@sp, 8, 16]) {{
  %kw = all_gather(%k) {{dim=1, axes=sp}} : {0}[2, 64, 4, 16]
  %vw = all_gather(%v) {{dim=1, axes=sp}} : {0}[2, 64, 4, 16]
  %y = attention(%q, %kw, %vw) {{causal=true, scale=0.25}} : {0}[2, 64@sp, 8, 16]
  return %y
}}
)",
                           dtype));
}

// Keys in so many parts, 1: whole, with memory planned.
Program WithParts(Program local, int64_t parts, bool merge_each) {
  Pipeline passes = {MakePass("start_collectives", {{"early", true}}),
                     MakePass("plan_memory", {})};
  if (parts != 1) {
    passes.insert(passes.begin(), WalkPasses(parts, merge_each)[0]);
  }
  PassContext context;
  ASYRA_CHECK_OK(RunPasses(local, passes, context));
  return local;
}

// Keys of 16 shards, and queries no larger than one: whole keys take all, and a
// ring its own shard, that in use, the one that arrives, a sum and a part.
TEST(WalkedRuns, RingsTakeTheMemoryOfFewShards) {
  for (std::string causal : {"false", "true"}) {
    Program local = Parse(fmt::format(R"(asyra 1 local
mesh (sp=16)

program @f(%q: f32[1, 1024@sp, 8, 16], %k: f32[1, 1024@sp, 8, 16],
    %v: f32[1, 1024@sp, 8, 16]) -> (f32[1, 1024@sp, 8, 16]) {{
  %kw = all_gather(%k) {{dim=1, axes=sp}} : f32[1, 1024, 8, 16]
  %vw = all_gather(%v) {{dim=1, axes=sp}} : f32[1, 1024, 8, 16]
  %y = attention(%q, %kw, %vw) {{causal={}, scale=0.25}} : f32[1, 1024@sp, 8, 16]
  return %y
}}
)",
                                      causal));
    auto peak = [&](int64_t parts, bool merge_each) {
      Program program = WithParts(local, parts, merge_each);
      int64_t end = 0;
      for (const Value& value : program.values) {
        if (value.offset < 0) continue;
        end =
            std::max(end, value.offset + LocalBytes(value.type, program.mesh));
      }
      return end;
    };
    int64_t shard = LocalBytes(local.type(local.inputs[1].value), local.mesh);
    EXPECT_GE(peak(1, false), 32 * shard);
    EXPECT_GE(peak(0, false), 32 * shard);
    // Keys and values in use and arriving, the sum, a part and what both make,
    // with log sums.
    EXPECT_LE(peak(0, true), 8 * shard);
  }
}

double MeanSquareError(const Tensor& got, const Tensor& want) {
  double sum = 0;
  for (int64_t k = 0; k < want.num_elements(); ++k) {
    double error = want.Get(k) - got.Get(k);
    sum += error * error;
  }
  return sum / static_cast<double>(want.num_elements());
}

// Against float64, by the mean over 256 Ki results, which no single rounding
// moves: in f32 the sum over parts is as near as that over all keys. In bf16 a
// part is rounded once before it is added to the others, which at most doubles
// the mean square of the one rounding that all keys together have.
TEST(WalkedRuns, ErrNoMoreThanWholeKeys) {
  using Form = std::pair<int64_t, bool>;  // parts, and merge_each
  const std::vector<Form> kForms = {
      {1, false}, {0, false}, {2, false}, {0, true}};
  for (std::string dtype : {"f32", "bf16"}) {
    Program local = SharedAttention(dtype), wide = SharedAttention("f64");
    std::map<Form, double> squares;
    for (uint64_t seed : {3, 4, 5, 6}) {
      std::vector<Tensor> inputs = RandomInputs(local, seed, 8), wide_inputs;
      for (const Tensor& input : inputs) {
        wide_inputs.emplace_back(DType::kF64, input.shape());
        wide_inputs.back().SetAll(input.ToDoubles());
      }
      std::vector<Tensor> want = ASYRA_VALUE(Interpret(wide, wide_inputs));
      for (auto [parts, each] : kForms) {
        Program program = WithParts(local, parts, each);
        RunResult run = ASYRA_VALUE(RunOnCpu(program, inputs, {}));
        squares[{parts, each}] += MeanSquareError(run.outputs[0], want[0]);
      }
    }
    for (const Form& form : kForms) {
      double ratio = std::sqrt(squares[form] / squares[kForms[0]]);
      EXPECT_LE(ratio, dtype == "f32" ? 1.05 : std::sqrt(2))
          << dtype << " in " << form.first << " parts, " << form.second;
    }
  }
}

}  // namespace
}  // namespace asyra
