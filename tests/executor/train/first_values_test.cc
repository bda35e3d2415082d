// First values of params that an init program makes, shard by shard.
#include "executor/train/first_values.h"

#include "executor/cpu/cpu_device.h"
#include "executor/cpu/run_on_cpu.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/support/status.h"
#include "ir/weights/random_tensors.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

constexpr int kParams = 12;
constexpr int64_t kRows = 16, kColumns = 128;
constexpr int64_t kParamBytes = kRows * kColumns * 4;

// How a param and the optimizer's state are sharded, and over what.
struct Case {
  const char *mesh = "", *rows = "", *columns = "";
  const char* cut = "cut=[], axes=()";  // of the same

  std::string Param() const {
    return fmt::format("f32[{}{}, {}{}]", kRows, rows, kColumns, columns);
  }
};
constexpr Case kCases[] = {
    {},
    {"mesh (dp=2)\n", "@dp", "", "cut=[0], axes=dp"},
    {"mesh (dp=2, tp=2)\n", "@tp", "@dp", "cut=[0, 1], axes=(tp,dp)"},
    {"mesh (tp=4)\n", "", ""}};

// Large params, each drawn from a stream of its own, and a small one.
Program Init(const Case& on) {
  std::string types, ops, outputs;
  for (int i = 0; i < kParams; ++i) {
    types += on.Param() + ", ";
    outputs += fmt::format("%w{}, ", i);
    ops +=
        fmt::format(R"(  %stream{0} = constant() {{value=i64[1]({0})}} : i64[1]
  %key{0} = concat(%seed, %stream{0}) {{dim=0}} : i64[2]
  %n{0} = random_normal(%key{0}) {{shape=[{1}, {2}], {4}}} : {3}
  %w{0} = neg(%n{0}) : {3}
)",
                    i, kRows, kColumns, on.Param(), on.cut);
  }
  return Parse(fmt::format(R"(asyra 1 local
{}program @init(%seed: i64[1]) -> ({}f32[4]) {{
{}  %one = constant() {{value=f32[](1.0)}} : f32[]
  %s = broadcast(%one) {{shape=[4]}} : f32[4]
  return {}%s
}}
)",
                           on.mesh, types, ops, outputs));
}

// Gives the params back, and moves a state on.
Program Step(const Case& on) {
  std::string params, types, ops, outputs;
  for (int i = 0; i < kParams; ++i) {
    params += fmt::format("%w{}: {} param, ", i, on.Param());
    types += on.Param() + ", ";
    ops += fmt::format("  %y{0} = neg(%w{0}) : {1}\n", i, on.Param());
    outputs += fmt::format("%y{}, ", i);
  }
  return Parse(fmt::format(R"(asyra 1 local
{0}program @step({1}%s: f32[4] param, %m: {2} state) -> ({3}f32[4], {2}) {{
{4}  %u = neg(%s) : f32[4]
  %next = sub(%w0, %m) : {2}
  return {5}%u, %next alias %m
}}
)",
                           on.mesh, params, on.Param(), types, ops, outputs));
}

std::set<std::string> AllParams() {
  std::set<std::string> names = {"s"};
  for (int i = 0; i < kParams; ++i) names.insert(fmt::format("w{}", i));
  return names;
}

std::vector<Tensor> Made(int64_t seed) {
  return ASYRA_VALUE(
      Interpret(Init(kCases[0]), {Tensor::FromInts(DType::kI64, {1}, {seed})}));
}

TEST(FirstValues, PartsTakeMemoryForOneParam) {
  std::unique_ptr<Device> device =
      CreateCpuDevice({.memory_bytes = (kParams + 4) * kParamBytes});
  auto states = ASYRA_VALUE(StateSet::Create(*device));
  ASYRA_CHECK_OK(states->Join(Step(kCases[0])));
  Program init = Init(kCases[0]);
  // All at once do not fit beside the params.
  auto at_once = ASYRA_VALUE(Executor::Load(init));
  EXPECT_THAT(
      std::string(MessageOf(at_once->Prepare(*device, nullptr, nullptr))),
      HasSubstr("the arena"));
  ASYRA_CHECK_OK(SetMadeValues(init, AllParams(), 5, nullptr, *states));
  std::vector<Tensor> expected = Made(5);
  for (int i = 0; i < kParams; ++i) {
    EXPECT_TRUE(SameBytes(ASYRA_VALUE(states->Get(fmt::format("w{}", i))),
                          expected[i]));
  }
  EXPECT_EQ(ASYRA_VALUE(states->Get("s")).ToDoubles(),
            std::vector<double>(4, 1));
}

TEST(FirstValues, WhatIsNotMadeIsAnError) {
  std::unique_ptr<Device> device = CreateCpuDevice();
  auto states = ASYRA_VALUE(StateSet::Create(*device));
  ASYRA_CHECK_OK(states->Join(Step(kCases[0])));
  absl::Status status =
      SetMadeValues(Init(kCases[0]), {"w0", "other"}, 5, nullptr, *states);
  EXPECT_EQ(MessageOf(status), "@init gives no values for %other");
}

// A run on any mesh begins with the same params, zeros and drawn values as the
// whole ones have, though no tensor of it is in memory as a whole.
TEST(FirstValues, RanksOfARunMakeTheirShards) {
  std::vector<Tensor> made = Made(7);
  Tensor moment =
      RandomTensors(3).Normal("m", DType::kF32, {kRows, kColumns}, 1);
  for (const Tensor& m :
       {moment, UnstoredZeros(DType::kF32, {kRows, kColumns})}) {
    std::vector<Tensor> whole(made.begin(), made.end());
    whole.push_back(m);
    auto expected = ASYRA_VALUE(Interpret(Step(kCases[0]), whole));
    for (const Case& on : kCases) {
      Program init = Init(on), step = Step(on);
      std::vector<Tensor> inputs(kParams + 1);
      inputs[3] = made[3];  // has data
      inputs.push_back(m);
      for (int64_t repeat : {1, 2}) {
        RunOptions options{.init = &init, .seed = 7, .repeat = repeat};
        RunResult result = ASYRA_VALUE(RunOnCpu(step, inputs, options));
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_TRUE(SameBytes(result.outputs[i], expected[i]))
              << on.mesh << " output " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace asyra
