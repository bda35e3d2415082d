#include "tools/run/run_inputs.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/weights/shard_reader.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

Program Example() {
  return ASYRA_VALUE(ParseProgram(R"(asyra 1 global
program @f(%ids: i64[3], %t: f32[5, 2] weight, %u: f32[9, 2] weight, %x: f32[3, 2])
    -> (f32[3, 2]) {
  %a = embedding(%t, %ids) : f32[3, 2]
  %b = embedding(%u, %ids) : f32[3, 2]
  %y = add(%a, %x) : f32[3, 2]
  return %y
}
)"));
}

Tensor Ids(int64_t first) {
  return Tensor::FromInts(DType::kI64, {3}, {first, 0, 0});
}
Tensor X(double first) {
  return Tensor::FromDoubles(DType::kF32, {3, 2}, {first, 0, 0, 0, 0, 0});
}

std::vector<Tensor> Drawn(uint64_t seed) {
  auto inputs = ASYRA_VALUE(RunInputs(Example(), {}, seed));
  for (Tensor& input : inputs) input = ASYRA_VALUE(ReadWhole(input));
  return inputs;
}

std::string ErrorOf(const NamedTensors& recorded) {
  auto inputs = RunInputs(Example(), recorded, 1);
  if (inputs.ok()) return "no error";
  return std::string(MessageOf(inputs.status()));
}

TEST(IndexLimit, IsTheSmallestTable) {
  EXPECT_EQ(IndexLimit(Example()), 5);
  // Rows that no id names are padding, also behind a cast.
  Program padded = ASYRA_VALUE(ParseProgram(R"(asyra 1 global
program @f(%ids: i64[3], %t: f32[5, 2] weight) -> (f64[3, 2]) {
  %wide = cast(%t) {to=f64} : f64[5, 2]
  %a = embedding(%wide, %ids) {rows=4} : f64[3, 2]
  return %a
}
)"));
  EXPECT_EQ(IndexLimit(padded), 4);
  Program none = Example();
  none.ops.clear();
  EXPECT_GT(IndexLimit(none), 0);
}

TEST(RunInputs, RandomOnesAreReproducibleAndValid) {
  auto a = Drawn(3), b = Drawn(3), c = Drawn(4);
  ASSERT_EQ(a.size(), 4u);
  EXPECT_TRUE(SameBytes(a[3], b[3]));
  EXPECT_FALSE(SameBytes(a[3], c[3]));
  for (int64_t id : a[0].ToInts()) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 5);
  }
}

TEST(RunInputs, RecordedOnesAreMatchedByNameThenByOrder) {
  auto named =
      ASYRA_VALUE(RunInputs(Example(), {{"x", X(7)}, {"ids", Ids(4)}}, 1));
  EXPECT_EQ(named[0].GetInt(0), 4);
  EXPECT_EQ(named[3].Get(0), 7);
  auto ordered =
      ASYRA_VALUE(RunInputs(Example(), {{"p", Ids(2)}, {"q", X(9)}}, 1));
  EXPECT_EQ(ordered[0].GetInt(0), 2);
  EXPECT_EQ(ordered[3].Get(0), 9);
  EXPECT_EQ(ordered[1].shape(), Shape({5, 2}));
}

TEST(RunInputs, WhatDoesNotFitIsAnError) {
  EXPECT_THAT(ErrorOf({{"x", X(1)}}),
              HasSubstr("1 input is recorded, the program takes 2"));
  EXPECT_THAT(ErrorOf({{"x", X(1)}, {"y", Ids(1)}}),
              HasSubstr("input %ids is not recorded"));
  EXPECT_THAT(ErrorOf({{"ids", X(1)}, {"x", X(1)}}),
              HasSubstr("recorded input ids is f32[3,2], the program's %ids "
                        "is i64[3]"));
}

TEST(RunInputs, RandomValuesAreInNoMemory) {
  auto inputs = ASYRA_VALUE(RunInputs(Example(), {}, 3));
  for (const Tensor& input : inputs) {
    EXPECT_EQ(input.data(), nullptr);
    ASSERT_NE(input.source(), nullptr);
  }
  EXPECT_EQ(inputs[1].shape(), Shape({5, 2}));
  // They follow from the name: another program has the same.
  Program other = Example();
  other.inputs.erase(other.inputs.begin());
  auto again = ASYRA_VALUE(RunInputs(other, {}, 3));
  EXPECT_TRUE(SameBytes(ASYRA_VALUE(ReadWhole(inputs[2])),
                        ASYRA_VALUE(ReadWhole(again[1]))));
}

TEST(CheckHostMemory, RefusesWhatCannotFit) {
  Program program = Example();
  EXPECT_TRUE(CheckHostMemory(program, {}).ok());
  program.values[1].type.dims[0].size = int64_t{1} << 50;
  EXPECT_THAT(std::string(MessageOf(CheckHostMemory(program, {}))),
              HasSubstr("GiB on the host"));
}

// The weights of a model that fits the devices and not the host.
TEST(CheckHostMemory, GpusHaveTheirWeightsThemselves) {
  std::string text = "asyra 1 global\nmesh(tp=1024)\nprogram @f(";
  for (int i = 0; i < 1024; ++i) {
    text += fmt::format("%w{}: f32[65536, 65536] weight, ", i);
  }
  Program program = ASYRA_VALUE(
      ParseProgram(text + "%x: f32[2]) -> (f32[2]) {\n  return %x\n}\n"));
  for (size_t i = 0; i < 1024; ++i) {
    program.values[program.inputs[i].value].type.dims[0].axes = {0};
  }
  EXPECT_THAT(std::string(MessageOf(CheckHostMemory(program, {}))),
              HasSubstr("1024 devices take 16400.0 GiB on the host"));
  EXPECT_THAT(std::string(MessageOf(
                  CheckHostMemory(program, {.runs_on = "interpreter"}))),
              HasSubstr("32768.0 GiB on the host"));
  EXPECT_TRUE(CheckHostMemory(program, {.runs_on = "cuda", .ranks = 2}).ok());
  // Nor are moments, zeros at first, on the host; params of a program are where
  // it gives them as a whole.
  for (size_t i = 0; i < 1024; ++i) {
    program.inputs[i].role = i % 2 == 0 ? InputRole::kState : InputRole::kParam;
  }
  HostUse use{.runs_on = "cuda", .ranks = 2};
  EXPECT_TRUE(CheckHostMemory(program, use).ok());
  use.params_are_whole = true;
  EXPECT_THAT(std::string(MessageOf(CheckHostMemory(program, use))),
              HasSubstr("2 devices take 8192.0 GiB on the host"));
  // Data that is given is in memory, each process has its own.
  program.inputs[0].role = InputRole::kData;
  use = {.runs_on = "cuda", .ranks = 2, .processes = 4096};
  EXPECT_TRUE(CheckHostMemory(program, use).ok());
  use.data_is_given = true;
  EXPECT_THAT(std::string(MessageOf(CheckHostMemory(program, use))),
              HasSubstr("GiB on the host"));
}

}  // namespace
}  // namespace asyra
