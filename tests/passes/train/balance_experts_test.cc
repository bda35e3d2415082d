// Terms of the loss of routers, against their formulas in double precision, and
// their gradients against difference quotients.
#include "passes/train/balance_experts.h"

#include <cmath>
#include <random>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "passes/train/differentiate.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

constexpr int64_t kTokens = 6, kExperts = 4;
constexpr double kBalance = 0.5, kZ = 0.25, kLossTerms = 3;

// The loss of 2 + the terms of two routers, by their logits, times the count.
Program Balanced(double balance, double z) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 global

program @f(%l: f64[2, 3, 4] param, %m: f64[6, 4] param) -> (f64[], f64[]) {
  %sum = constant() {value=f64[](2.0)} : f64[]
  %count = constant() {value=f64[](3.0)} : f64[]
  %a, %b = moe_router(%l) {k=2, normalize=true} : f64[2, 3, 2], i64[2, 3, 2]
  %c, %d = moe_router(%m) {k=1, normalize=false} : f64[6, 1], i64[6, 1]
  return %sum as "loss_sum", %count as "loss_count"
}
)"));
  PassContext context;
  EXPECT_TRUE(ASYRA_VALUE(
      BalanceExperts(program, {{"balance", balance}, {"z", z}}, context)));
  return program;
}

std::vector<Tensor> RandomLogits(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<Tensor> logits;
  for (const Shape& shape : {Shape{2, 3, 4}, Shape{6, 4}}) {
    Tensor tensor(DType::kF64, shape);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.Set(i, normal(random));
    }
    logits.push_back(std::move(tensor));
  }
  return logits;
}

// Computes Hugging Face's load_balancing_loss_func, whose gates are those of
// all layers, and ST-MoE's z-loss.
double Formula(const std::vector<Tensor>& logits, double balance, double z) {
  double choices[kExperts] = {}, probabilities[kExperts] = {}, squares = 0;
  for (size_t layer = 0; layer < 2; ++layer) {
    std::vector<double> x = logits[layer].ToDoubles();
    for (int64_t token = 0; token < kTokens; ++token) {
      const double* row = x.data() + token * kExperts;
      double sum = 0;
      for (int64_t e = 0; e < kExperts; ++e) sum += std::exp(row[e]);
      squares += std::log(sum) * std::log(sum);
      for (int64_t e = 0; e < kExperts; ++e) {
        probabilities[e] += std::exp(row[e]) / sum;
        int64_t larger = 0;
        for (int64_t o = 0; o < kExperts; ++o) larger += row[o] > row[e];
        if (larger < (layer == 0 ? 2 : 1)) ++choices[e];
      }
    }
  }
  double product = 0, tokens = 2 * kTokens;
  for (int64_t e = 0; e < kExperts; ++e) {
    product += choices[e] / tokens * (probabilities[e] / tokens);
  }
  return 2 + kLossTerms * (balance * kExperts * product + z * squares / tokens);
}

TEST(BalanceExperts, AddsWhatTheFormulasSay) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    std::vector<Tensor> logits = RandomLogits(seed);
    for (auto [balance, z] :
         {std::pair{kBalance, kZ}, {kBalance, 0.0}, {0.0, kZ}}) {
      auto got = ASYRA_VALUE(Interpret(Balanced(balance, z), logits));
      EXPECT_NEAR(got[0].ToDoubles()[0], Formula(logits, balance, z), 1e-12);
      EXPECT_EQ(got[1].ToDoubles()[0], kLossTerms);
    }
  }
}

TEST(BalanceExperts, HasTheGradientsOfTheFormulas) {
  Program program = Balanced(kBalance, kZ);
  PassContext context;
  ASSERT_TRUE(ASYRA_VALUE(Differentiate(program, {}, context)));
  std::vector<Tensor> logits = RandomLogits(7);
  auto got = ASYRA_VALUE(Interpret(program, logits));
  ASSERT_EQ(got.size(), 4u);
  constexpr double kStep = 1e-5;
  for (size_t layer = 0; layer < 2; ++layer) {
    std::vector<double> gradient = got[2 + layer].ToDoubles();
    std::vector<double> at = logits[layer].ToDoubles();
    for (size_t i = 0; i < gradient.size(); ++i) {
      double values[2];
      for (int side : {0, 1}) {
        std::vector<double> elements = at;
        elements[i] += side == 0 ? kStep : -kStep;
        std::vector<Tensor> moved = logits;
        moved[layer] =
            Tensor::FromDoubles(DType::kF64, logits[layer].shape(), elements);
        values[side] = Formula(moved, kBalance, kZ);
      }
      EXPECT_NEAR(gradient[i], (values[0] - values[1]) / (2 * kStep), 1e-9);
    }
  }
}

TEST(BalanceExperts, ChangesNothingWithoutWeights) {
  Program program = ASYRA_VALUE(
      ParseProgram("asyra 1 global\n\nprogram @f(%x: f32[2]) -> (f32[2]) {\n"
                   "  %y = exp(%x) : f32[2]\n  return %y\n}\n"));
  PassContext context;
  EXPECT_FALSE(ASYRA_VALUE(
      BalanceExperts(program, {{"balance", 0.0}, {"z", 0.0}}, context)));
}

}  // namespace
}  // namespace asyra
