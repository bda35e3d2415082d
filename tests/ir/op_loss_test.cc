// The loss over a sharded vocabulary.
#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

TEST(CrossEntropy, IsMadeOfPartsThatAVocabularyMayBeShardedIn) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (tp=4)
program @loss(%x: f32[6, 16@tp], %labels: i64[6]) -> (f32[6]) {
  %local, %own = cross_entropy_parts(%x, %labels) {parts=4} : f32[6, 4@tp], f32[6, 4@tp]
  %all = all_gather(%local) {dim=1, axes=tp} : f32[6, 4]
  %lse = log_sum_exp(%all) {dims=[-1], keep=false} : f32[6]
  %sum = reduce_sum(%own) {dims=[-1], keep=false} : f32[6] partial(tp)
  %picked = all_reduce(%sum) {axes=tp} : f32[6]
  %rows = sub(%lse, %picked) : f32[6]
  return %rows
}
)"));
  std::mt19937_64 random(Seed());
  Tensor x = SmallIntegers(Type(DType::kF32, {6, 16}), -3, 3, &random);
  Tensor labels = SmallIntegers(Type(DType::kI64, {6}), 0, 15, &random);
  const OpDef& def = *FindOp("cross_entropy");
  AttrMap attrs;
  ASYRA_CHECK_OK(CompleteAttrs(def, &attrs));
  Tensor want = ASYRA_VALUE(Evaluate(def, attrs, {x, labels}))[0];
  Tensor got = ASYRA_VALUE(Interpret(program, {x, labels}))[0];
  EXPECT_TRUE(Near(got, want, 1e-6));
}

}  // namespace
}  // namespace asyra
