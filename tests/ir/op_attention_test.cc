// Attention against its definition, and the equivalences of its options.
#include <cmath>

#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "tests/ir/op_case.h"

namespace asyra {
namespace {

constexpr int64_t kB = 2, kS = 5, kH = 4, kG = 2, kD = 3, kE = 2;

Tensor Random(Shape shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor tensor(DType::kF64, shape);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.Set(i, normal(random));
  }
  return tensor;
}

class Attention : public testing::Test {
 protected:
  Tensor Run(AttrMap attrs, const Tensor* extra = nullptr) const {
    if (attrs.Find("scale") == nullptr) attrs.Set("scale", 0.5);
    const OpDef& def = *FindOp("attention");
    ASYRA_CHECK_OK(CompleteAttrs(def, &attrs));
    std::vector<Tensor> operands = {q_, k_, v_};
    if (extra != nullptr) operands.push_back(*extra);
    return ASYRA_VALUE(Evaluate(def, attrs, operands))[0];
  }

  // mask[s, t] by a function of both.
  template <typename Sees>
  static Tensor MaskOf(Sees sees) {
    Tensor mask(DType::kBool, {1, 1, kS, kS});
    for (int64_t s = 0; s < kS; ++s) {
      for (int64_t t = 0; t < kS; ++t) mask.SetInt(s * kS + t, sees(s, t));
    }
    return mask;
  }

  double Score(int64_t b, int64_t s, int64_t h, int64_t t) const {
    int64_t g = h / (kH / kG);
    double score = 0;
    for (int64_t d = 0; d < kD; ++d) {
      score += q_.Get(((b * kS + s) * kH + h) * kD + d) *
               k_.Get(((b * kS + t) * kG + g) * kD + d);
    }
    return score * 0.5;
  }

  // The definition, without options.
  double Expected(int64_t b, int64_t s, int64_t h, int64_t e) const {
    double sum = 0, value = 0;
    int64_t g = h / (kH / kG);
    for (int64_t t = 0; t < kS; ++t) {
      double weight = std::exp(Score(b, s, h, t));
      sum += weight;
      value += weight * v_.Get(((b * kS + t) * kG + g) * kE + e);
    }
    return value / sum;
  }

  Tensor q_ = Random({kB, kS, kH, kD}, Seed());
  Tensor k_ = Random({kB, kS, kG, kD}, Seed() + 1);
  Tensor v_ = Random({kB, kS, kG, kE}, Seed() + 2);
};

TEST_F(Attention, IsSoftmaxOfScoresTimesValues) {
  Tensor got = Run({});
  int64_t i = 0;
  for (int64_t b = 0; b < kB; ++b) {
    for (int64_t s = 0; s < kS; ++s) {
      for (int64_t h = 0; h < kH; ++h) {
        for (int64_t e = 0; e < kE; ++e, ++i) {
          EXPECT_NEAR(got.Get(i), Expected(b, s, h, e), 1e-12);
        }
      }
    }
  }
}

TEST_F(Attention, CausalIsALowerTriangularMask) {
  Tensor mask = MaskOf([](int64_t s, int64_t t) { return t <= s; });
  EXPECT_TRUE(Near(Run({{"causal", true}}), Run({}, &mask), 0));
  EXPECT_FALSE(Near(Run({{"causal", true}}), Run({}), 1e-3));
}

TEST_F(Attention, WindowHidesKeysBehind) {
  Tensor mask = MaskOf([](int64_t s, int64_t t) { return t > s - 2; });
  Tensor both =
      MaskOf([](int64_t s, int64_t t) { return t > s - 2 && t <= s; });
  EXPECT_TRUE(Near(Run({{"window", int64_t{2}}}), Run({}, &mask), 0));
  EXPECT_TRUE(
      Near(Run({{"window", int64_t{2}}, {"causal", true}}), Run({}, &both), 0));
}

TEST_F(Attention, FloatMasksAreAdded) {
  Tensor bool_mask = MaskOf([](int64_t s, int64_t t) { return (s + t) % 2; });
  Tensor float_mask(DType::kF32, {kB, kH, kS, kS});
  for (int64_t i = 0; i < float_mask.num_elements(); ++i) {
    bool seen = bool_mask.GetInt(i % (kS * kS)) != 0;
    // Adding the same to a whole row changes nothing.
    float_mask.Set(i, seen ? 3.0 : -INFINITY);
  }
  EXPECT_TRUE(Near(Run({}, &float_mask), Run({}, &bool_mask), 1e-12));
}

TEST_F(Attention, RowsThatSeeNothingAreZero) {
  Tensor mask = MaskOf([](int64_t s, int64_t) { return s != 2; });
  Tensor got = Run({}, &mask);
  Tensor free = Run({});
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    bool blind = i / (kH * kE) % kS == 2;
    EXPECT_EQ(got.Get(i), blind ? 0.0 : free.Get(i));
  }
}

TEST_F(Attention, SoftcapBoundsScoresBeforeTheMask) {
  EXPECT_TRUE(Near(Run({{"softcap", 1e6}}), Run({}), 1e-9));
  // Scores of at most 1e-9 are as good as equal: every key weighs the same.
  Tensor mask = MaskOf([](int64_t, int64_t t) { return t < 2; });
  Tensor got = Run({{"softcap", 1e-9}}, &mask);
  for (int64_t e = 0; e < kE; ++e) {
    EXPECT_NEAR(got.Get(e), (v_.Get(e) + v_.Get(kG * kE + e)) / 2, 1e-6);
  }
}

TEST_F(Attention, LengthsHideWhatIsBehindThem) {
  Tensor lengths = Tensor::FromInts(DType::kI64, {kB}, {3, kS});
  Tensor mask(DType::kBool, {kB, 1, 1, kS});
  for (int64_t i = 0; i < kB * kS; ++i) {
    mask.SetInt(i, i % kS < (i < kS ? 3 : kS));
  }
  EXPECT_TRUE(Near(Run({}, &lengths), Run({}, &mask), 0));
}

TEST_F(Attention, RowsAtTheEndOfALengthCountFromThere) {
  // Row s of a sequence of length n is key n - S + s.
  const int64_t n[kB] = {kS, kS - 1};
  Tensor lengths = Tensor::FromInts(DType::kI32, {kB}, {n[0], n[1]});
  Tensor mask(DType::kBool, {kB, 1, kS, kS});
  for (int64_t i = 0; i < mask.num_elements(); ++i) {
    int64_t b = i / (kS * kS), s = i / kS % kS, t = i % kS;
    mask.SetInt(i, t <= n[b] - kS + s);
  }
  EXPECT_TRUE(Near(Run({{"causal", true}, {"at_end", true}}, &lengths),
                   Run({}, &mask), 0));
}

TEST_F(Attention, OffsetMovesTheRows) {
  Tensor mask =
      MaskOf([](int64_t s, int64_t t) { return t <= s + 2 && t > s + 2 - 2; });
  AttrMap attrs = {
      {"causal", true}, {"window", int64_t{2}}, {"offset", int64_t{2}}};
  EXPECT_TRUE(Near(Run(attrs), Run({}, &mask), 0));
}

TEST_F(Attention, WindowAfterHidesKeysAhead) {
  Tensor mask =
      MaskOf([](int64_t s, int64_t t) { return t > s - 2 && t < s + 2; });
  EXPECT_TRUE(Near(Run({{"window", int64_t{2}}, {"window_after", int64_t{2}}}),
                   Run({}, &mask), 0));
}

TEST_F(Attention, SinksTakeTheirShare) {
  // A sink is a further key whose value is 0.
  Tensor sinks = Tensor::FromDoubles(DType::kF64, {kH}, {0, 1, -1, 700});
  Tensor got = Run({}, &sinks), free = Run({});
  int64_t i = 0;
  for (int64_t b = 0; b < kB; ++b) {
    for (int64_t s = 0; s < kS; ++s) {
      for (int64_t h = 0; h < kH; ++h) {
        double sum = 0;
        for (int64_t t = 0; t < kS; ++t) sum += std::exp(Score(b, s, h, t));
        double share = sum / (sum + std::exp(sinks.Get(h)));
        for (int64_t e = 0; e < kE; ++e, ++i) {
          EXPECT_NEAR(got.Get(i), share * free.Get(i), 1e-12);
        }
      }
    }
  }
}

TEST_F(Attention, WorkCountsTheVisiblePairs) {
  const OpDef& def = *FindOp("attention");
  Type q = ASYRA_VALUE(ParseType("bf16[2,128,8,64]", {}));
  Type kv = ASYRA_VALUE(ParseType("bf16[2,128,2,64]", {}));
  std::vector<Type> operands = {q, kv, kv};
  auto flops = [&](bool causal, int64_t window) {
    AttrMap attrs = {{"causal", causal}, {"window", window}, {"scale", 1.0}};
    ASYRA_CHECK_OK(CompleteAttrs(def, &attrs));
    Work work = WorkOf({def, attrs, operands, {&q, 1}}, {});
    EXPECT_TRUE(work.matrix);
    EXPECT_EQ(work.read_bytes, q.bytes() + 2 * kv.bytes());
    EXPECT_EQ(work.write_bytes, q.bytes());
    return work.flops / (2.0 * 2 * 8 * (64 + 64));
  };
  auto band = [&](int64_t behind, int64_t ahead) {
    AttrMap attrs = {
        {"window", behind}, {"window_after", ahead}, {"scale", 1.0}};
    ASYRA_CHECK_OK(CompleteAttrs(def, &attrs));
    return WorkOf({def, attrs, operands, {&q, 1}}, {}).flops /
           (2.0 * 2 * 8 * (64 + 64));
  };
  int64_t causal = 0, windowed = 0, both = 0, banded = 0;
  for (int64_t s = 0; s < 128; ++s) {
    for (int64_t t = 0; t < 128; ++t) {
      causal += t <= s;
      windowed += t > s - 10;
      both += t <= s && t > s - 10;
      banded += t < s + 20 && t > s - 10;
    }
  }
  EXPECT_DOUBLE_EQ(flops(false, 0), 128.0 * 128.0);
  EXPECT_DOUBLE_EQ(flops(true, 0), static_cast<double>(causal));
  EXPECT_DOUBLE_EQ(flops(false, 10), static_cast<double>(windowed));
  EXPECT_DOUBLE_EQ(flops(true, 10), static_cast<double>(both));
  EXPECT_DOUBLE_EQ(flops(true, 500), static_cast<double>(causal));
  EXPECT_DOUBLE_EQ(band(10, 20), static_cast<double>(banded));
}

// A device has an early and a late one of 2n runs, and sees as many pairs with
// both as any other.
TEST_F(Attention, RunsAreAsLongAsTheirMean) {
  const OpDef& def = *FindOp("attention");
  Type kv = ASYRA_VALUE(ParseType("bf16[1,96,1,64]", {}));
  auto pairs = [&](int64_t rows, int64_t offset, int64_t runs, int64_t window) {
    Type q(DType::kBF16, {1, rows, 1, 64});
    std::vector<Type> operands = {q, kv, kv};
    AttrMap attrs = {{"causal", true},
                     {"window", window},
                     {"scale", 1.0},
                     {"offset", offset},
                     {"runs", runs}};
    ASYRA_CHECK_OK(CompleteAttrs(def, &attrs));
    return WorkOf({def, attrs, operands, {&q, 1}}, {}).flops / (2.0 * 128);
  };
  for (int64_t window : {0, 7, 40}) {
    double all = pairs(96, 0, 0, window);
    for (int64_t n : {1, 2, 4, 8}) {
      double both = pairs(48 / n, 0, n, window) + pairs(48 / n, 48, -n, window);
      EXPECT_NEAR(both, all / static_cast<double>(n), 1e-9 * all) << n;
    }
  }
  // Not sharded, and with keys before the rows.
  EXPECT_DOUBLE_EQ(pairs(48, 0, 4, 0) + pairs(48, 48, -4, 0), 96 * 97 / 2);
  EXPECT_DOUBLE_EQ(pairs(4, 48, 4, 0), 4 * (48 + 8.5));
}

}  // namespace
}  // namespace asyra
