#include "ir/weight_origin.h"

#include <algorithm>
#include <numeric>

#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "ir/weights/find_as_read.h"
#include "ir/weights/weight_store.h"

namespace asyra {
namespace {

Tensor Numbers(const Shape& shape) {
  std::vector<double> numbers(NumElements(shape));
  std::iota(numbers.begin(), numbers.end(), 0);
  return Tensor::FromDoubles(DType::kF32, shape, numbers);
}

// Columns [head, (q, k, v), size] of a [2, 2 * 3 * 2] matrix: those of k, and
// of these the ones of the second head.
const WeightOrigin kKeys = {
    .tensor = "qkv", .shape = {2, 12}, .cuts = {{{2, 2, 3, 2}, 2, 1, 1}}};
const WeightOrigin kSecond = {
    .tensor = "qkv",
    .shape = {2, 12},
    .cuts = {{{2, 2, 3, 2}, 2, 1, 1}, {{2, 2, 2}, 1, 1, 1}}};

TEST(WeightOrigin, PartsAreTakenAndPutBack) {
  Tensor whole = Numbers({2, 12});
  Tensor keys = TakePart(kKeys, whole, {2, 4});
  EXPECT_EQ(keys.ToDoubles(),
            (std::vector<double>{2, 3, 8, 9, 14, 15, 20, 21}));
  Tensor second = TakePart(kSecond, whole, {2, 2});
  EXPECT_EQ(second.ToDoubles(), (std::vector<double>{8, 9, 20, 21}));
  // All three parts make the whole.
  Tensor joined(DType::kF32, {2, 12});
  for (int64_t part = 0; part < 3; ++part) {
    WeightOrigin origin = kKeys;
    origin.cuts[0].start = part;
    PutPart(origin, TakePart(origin, whole, {2, 4}), &joined);
  }
  EXPECT_TRUE(SameBytes(joined, whole));
}

TEST(WeightOrigin, RunsAscend) {
  for (const WeightOrigin& origin : {kKeys, kSecond}) {
    int64_t elements = origin.cuts.size() == 1 ? 8 : 4, last = -1;
    for (int64_t at = 0; at < elements;) {
      OriginRun run = RunAt(origin, at, elements);
      EXPECT_GT(run.whole, last);
      EXPECT_GT(run.count, 0);
      last = run.whole + run.count - 1;
      at += run.count;
    }
  }
}

TEST(WeightOrigin, TransposedCutsAreRows) {
  Tensor whole = Numbers({2, 12});
  WeightOrigin turned = *Transposed(kKeys);
  EXPECT_EQ(turned.shape, (Shape{12, 2}));
  Tensor rows = TakePart(turned, TransposedMatrix(whole), {4, 2});
  EXPECT_TRUE(
      SameBytes(rows, TransposedMatrix(TakePart(kKeys, whole, {2, 4}))));
  WeightOrigin of_rows = {
      .tensor = "w", .shape = {4, 2}, .cuts = {{{4, 2}, 0, 0, 2}}};
  EXPECT_FALSE(Transposed(of_rows).has_value());
}

TEST(WeightOrigin, TextRoundTrips) {
  const std::string text = R"(asyra 1 global

program @main(%a: f32[2, 4] param of "m/qkv \"x\"" [2, 12] cut [2, 2, 3, 2] 2 1 1,
    %b: f32[2, 3] weight of "head" [2, 3] transposed stored "val_1" tied "table" transposed stored "val_2" transposed tied "u",
    %c: f32[3] weight of "mean" [3] constant "running statistics" made) -> (f32[2, 4]) {
  return %a
}
)";
  Program program = ASYRA_VALUE(ParseProgram(text));
  ASYRA_CHECK_OK(Verify(program));
  EXPECT_EQ(ToString(program), text);
}

TEST(WeightOrigin, TheVerifierRefusesPartsThatAreNone) {
  auto error = [](const std::string& type, const std::string& origin) {
    Program program =
        ASYRA_VALUE(ParseProgram("asyra 1 global\nprogram @main(%a: " + type +
                                 " " + origin + ") -> () {\n  return\n}\n"));
    return std::string(MessageOf(Verify(program)));
  };
  EXPECT_EQ(error("f32[2] weight", "of \"w\" [4]"),
            "input %a of shape [2] is a part of \"w\" of 4 elements");
  EXPECT_EQ(error("f32[2] weight", "of \"w\" [4] cut [4] 0 3 2"),
            "input %a: no cut 3:5 of dim 0 of [4] in 4 elements");
  EXPECT_EQ(error("f32[2] weight", "of \"w\" [4] cut [2, 3] 0 0 1"),
            "input %a: no cut 0:1 of dim 0 of [2,3] in 4 elements");
  EXPECT_EQ(error("f32[4] weight", "of \"w\" [4] transposed"),
            "input %a: its origin of shape [4] is no matrix");
  EXPECT_EQ(error("f32[4]", "of \"w\" [4]"),
            "input %a has an origin, only weights can");
}

TEST(WeightOrigin, DataIsFoundAsItIsRead) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global
program @main(%a: f32[2, 4] weight of "qkv" [2, 12] transposed cut [2, 2, 3, 2] 2 1 1,
    %b: f32[3] weight, %c: f32[6, 2] weight of "qkv" [6, 2] made) -> () {
  return
}
)"));
  WeightStore store;
  store.Set("qkv", TransposedMatrix(Numbers({2, 12})));
  Tensor found = **FindAsRead(store, program, program.inputs[0]);
  EXPECT_TRUE(SameBytes(found, TakePart(kKeys, Numbers({2, 12}), {2, 4})));
  // One has no such name, one is computed from that tensor by a pass.
  for (int i : {1, 2}) {
    EXPECT_FALSE((*FindAsRead(store, program, program.inputs[i])).has_value());
  }
  store.Set("qkv", Numbers({2, 12}));
  EXPECT_EQ(MessageOf(FindAsRead(store, program, program.inputs[0]).status()),
            "qkv is [2,12], in the model it is [12,2]");
}

}  // namespace
}  // namespace asyra
