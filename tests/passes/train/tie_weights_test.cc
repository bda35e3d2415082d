#include "passes/train/tie_weights.h"

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "ir/weight_origin.h"
#include "ir/weights/weight_store.h"
#include "tests/support/untyped.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// An embedding and a head of `shape`, and biases `a` and `b` of the same data.
Program Model(const Shape& head_shape, const std::string& head,
              const std::vector<double>& table_data,
              const std::vector<double>& head_data) {
  Program program =
      ASYRA_VALUE(ParseUntyped(fmt::format(R"(
    in ids i64[2,5]
    weight table f32[4,3]
    weight a f32[3]
    weight b f32[3]
    weight head f32{}
    x = embedding(table, ids)
    y = add(x, a)
    z = add(y, b)
    logits = {}
    out logits)",
                                           ShapeToString(head_shape), head)));
  WeightStore weights;
  weights.Set("table", Tensor::FromDoubles(DType::kF32, {4, 3}, table_data));
  weights.Set("head", Tensor::FromDoubles(DType::kF32, head_shape, head_data));
  for (const char* name : {"a", "b"}) {
    weights.Set(name, Tensor::FromDoubles(DType::kF32, {3}, {1, 2, 3}));
  }
  program.weights = std::make_shared<WeightStore>(weights);
  return program;
}

Program Same(const std::vector<double>& data,
             const std::vector<double>& head_data) {
  return Model({4, 3}, "matmul(z, head) {transpose_b=true}", data, head_data);
}

Program Turned(const std::vector<double>& data,
               const std::vector<double>& head_data) {
  return Model({3, 4}, "matmul(z, head)", data, head_data);
}

const std::vector<double> kData = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
const std::vector<double> kTurned = {1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12};

Tensor LogitsOf(const Program& program) {
  std::vector<Tensor> inputs(program.inputs.size(), Tensor(DType::kF32, {0}));
  inputs[0] =
      Tensor::FromInts(DType::kI64, {2, 5}, {0, 1, 2, 3, 0, 3, 2, 1, 0, 1});
  return ASYRA_VALUE(Interpret(program, inputs))[0];
}

// Ties, and checks that the result means the same as before.
std::vector<std::string> Tied(Program program, const TieChoice& choice = {}) {
  Program before = program;
  WeightRoles roles = FindParameters(program);
  std::vector<std::string> lines =
      ASYRA_VALUE(TieWeights(program, roles.parameters, choice));
  ASYRA_CHECK_OK(Verify(program));
  EXPECT_EQ(FindParameters(program).parameters.size(),
            roles.parameters.size() - lines.size());
  EXPECT_EQ(program.inputs.size(), before.inputs.size() - lines.size());
  if (program.weights != nullptr) {
    EXPECT_TRUE(SameBytes(LogitsOf(program), LogitsOf(before)));
  }
  return lines;
}

TEST(TieWeights, SameDataIsOneParameter) {
  EXPECT_THAT(Tied(Same(kData, kData)),
              ElementsAre("head is table: one parameter"));
}

TEST(TieWeights, TransposedDataIsOneParameter) {
  EXPECT_THAT(Tied(Turned(kData, kTurned)),
              ElementsAre("head is table transposed: one parameter"));
}

TEST(TieWeights, OtherDataIsNot) {
  std::vector<double> other = kTurned;
  other.back() = 13;  // the last that is compared
  EXPECT_THAT(Tied(Turned(kData, other)), IsEmpty());
  other = kData;
  other.back() = 13;
  EXPECT_THAT(Tied(Same(kData, other)), IsEmpty());
  // The same elements, but of another shape.
  EXPECT_THAT(Tied(Turned(kData, kData)), IsEmpty());
}

TEST(TieWeights, MatricesOfOneNumberAreNot) {
  const std::vector<double> zeros(12, 0);
  EXPECT_THAT(Tied(Same(zeros, zeros)), IsEmpty());
  EXPECT_THAT(Tied(Turned(zeros, zeros)), IsEmpty());
}

TEST(TieWeights, WithoutDataNothingIsKnown) {
  Program program = Same(kData, kData);
  program.weights = nullptr;
  EXPECT_THAT(Tied(program), IsEmpty());
}

// Layers 1 and 2 begin as copies of each other, and the head of the table.
Program Copies() {
  Program program = ASYRA_VALUE(ParseUntyped(R"(
    in ids i64[2,5]
    weight table f32[3,3]
    weight first f32[3,3]
    weight second f32[3,3]
    weight head f32[3,3]
    x = embedding(table, ids)
    y = matmul(x, first)
    z = matmul(y, second)
    logits = matmul(z, head) {transpose_b=true}
    out logits)"));
  WeightStore weights;
  for (const char* name : {"table", "first", "second", "head"}) {
    weights.Set(name, Tensor::FromDoubles(DType::kF32, {3, 3},
                                          {1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
  program.weights = std::make_shared<WeightStore>(weights);
  return program;
}

std::vector<std::string> TiedCopies(const TieChoice& choice) {
  Program program = Copies();
  return ASYRA_VALUE(
      TieWeights(program, FindParameters(program).parameters, choice));
}

TEST(TieWeights, WhatIsEqualByChanceStaysApart) {
  EXPECT_THAT(TiedCopies({}), ElementsAre("head is table: one parameter"));
}

TEST(TieWeights, AsUsersSay) {
  EXPECT_THAT(TiedCopies({.tie = "first|second"}),
              ElementsAre("second is first: one parameter",
                          "head is table: one parameter"));
  EXPECT_THAT(TiedCopies({.untie = "head"}), IsEmpty());
  EXPECT_THAT(TiedCopies({.untie = ".*"}), IsEmpty());
  EXPECT_THAT(TiedCopies({.tie = "first|second", .untie = "table"}),
              ElementsAre("second is first: one parameter"));
}

TEST(TieWeights, RefusesNamesThatNothingHas) {
  Program program = Copies();
  std::vector<Parameter> parameters = FindParameters(program).parameters;
  auto error = [&](const TieChoice& choice) {
    return std::string(
        MessageOf(TieWeights(program, parameters, choice).status()));
  };
  EXPECT_EQ(error({.tie = "third"}),
            "tie: none of the 4 parameters is called third");
  EXPECT_EQ(error({.untie = "third"}),
            "untie: none of the 4 parameters is called third");
  for (const char* apart : {"first", "first|second"}) {
    EXPECT_EQ(error({.untie = apart}),
              fmt::format(
                  "untie: no parameter called {} is tied to another without it",
                  apart));
  }
  EXPECT_EQ(error({.tie = "first"}),
            "tie: no other parameter that it matches has the bytes of first");
}

TEST(TieWeights, BothNamesAreKept) {
  Program program = Turned(kData, kTurned);
  ASYRA_CHECK_OK(
      TieWeights(program, FindParameters(program).parameters).status());
  const Input& table = program.inputs[1];
  ASSERT_NE(table.origin, nullptr);
  EXPECT_EQ(table.origin->tensor, "table");
  ASSERT_EQ(table.origin->tied.size(), 1u);
  EXPECT_EQ(table.origin->tied[0].tensor, "head");
  EXPECT_TRUE(table.origin->tied[0].transposed);
}

}  // namespace
}  // namespace asyra
