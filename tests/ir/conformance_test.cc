// What every op must satisfy, by being listed: each sample of each op is run,
// costed, printed and tiled, and is linear where its axis rule says so. Files
// beside this one shard it, differentiate it and run what is sharded over a
// mesh.
#include <cmath>

#include "tests/ir/plans/half_by_half.h"

namespace asyra {
namespace {

TEST_P(OneDevice, ReferenceFillsTheInferredTypes) {
  std::vector<Tensor> got = Evaluated();
  ASSERT_EQ(got.size(), results_.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].dtype(), results_[i].dtype);
    EXPECT_EQ(got[i].shape(), results_[i].shape());
  }
  if (call_.def->is_pure) {
    EXPECT_TRUE(SameBytes(got[0], Evaluated()[0]));
  }
}

TEST_P(OneDevice, WorkIsFinite) {
  Work work = WorkOf({*call_.def, call_.attrs, call_.operands, results_}, {});
  for (double amount : {work.flops, work.read_bytes, work.write_bytes}) {
    EXPECT_TRUE(std::isfinite(amount));
    EXPECT_GE(amount, 0);
  }
}

// Splits values into two summands.
std::vector<Tensor> Minus(const std::vector<Tensor>& a,
                          const std::vector<Tensor>& b) {
  std::vector<Tensor> differences;
  for (size_t i = 0; i < a.size(); ++i) {
    Tensor difference(a[i].dtype(), a[i].shape());
    for (int64_t k = 0; k < difference.num_elements(); ++k) {
      difference.Set(k, a[i].Get(k) - b[i].Get(k));
    }
    differences.push_back(std::move(difference));
  }
  return differences;
}

TEST_P(OneDevice, IsAsLinearAsItsRuleSays) {
  AxisRule rule = Rule();
  Mesh mesh = ParseMesh("(a=2)");
  std::vector<Tensor> other = GetParam().Fill(call_.operands, 1);
  std::vector<Tensor> rest = Minus(operands_, other);
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (call_.operands[i].dtype == DType::kBool) continue;
    // Unless they are joint, operand i alone is partial.
    bool joint = rule.linearity == Linearity::kJoint;
    std::vector<Type> types = call_.operands;
    std::vector<Tensor> on_first = operands_, on_second = operands_;
    for (size_t k = 0; k < operands_.size(); ++k) {
      if (k != i && !joint) continue;
      types[k].partial = {0};
      on_first[k] = other[k];
      on_second[k] = rest[k];
    }
    // What a matmul is added to is partial where the matmul is.
    if (rule.accumulates_on >= 0 &&
        static_cast<int>(i) != rule.accumulates_on) {
      size_t onto = rule.accumulates_on;
      EXPECT_FALSE(InferTypes(*call_.def, call_.attrs, types, mesh).ok());
      types[onto].partial = {0};
      on_first[onto] = other[onto];
      on_second[onto] = rest[onto];
    }
    absl::StatusOr<std::vector<Type>> inferred =
        InferTypes(*call_.def, call_.attrs, types, mesh);
    if (rule.linearity == Linearity::kNone ||
        static_cast<int>(i) == rule.accumulates_on ||
        (rule.linearity == Linearity::kFirst && i > 0)) {
      EXPECT_FALSE(inferred.ok()) << ToString(types, mesh);
      continue;
    }
    ASSERT_TRUE(inferred.ok()) << inferred.status();
    EXPECT_EQ((*inferred)[0].partial, AxisList{0});
    Tensor first = ASYRA_VALUE(Evaluate(*call_.def, call_.attrs, on_first))[0];
    Tensor second =
        ASYRA_VALUE(Evaluate(*call_.def, call_.attrs, on_second))[0];
    EXPECT_TRUE(Near(Minus({Evaluated()[0]}, {first})[0], second, 1e-6));
    if (joint) break;
  }
}

TEST_P(OneDevice, TilesMakeTheWhole) {
  ExpectTilesMakeTheWhole(OneOp(call_, {}, Stage::kGlobal), Rule(), operands_);
}

TEST_P(OneDevice, TextRoundTrips) {
  Program program = OneOp(call_, {}, Stage::kGlobal);
  absl::Status verified = Verify(program);
  EXPECT_TRUE(verified.ok()) << verified;
  ExpectTextRoundTrip(program);
}

INSTANTIATE_TEST_SUITE_P(Conformance, OneDevice,
                         testing::ValuesIn(Cases(false)), CaseName);

}  // namespace
}  // namespace asyra
