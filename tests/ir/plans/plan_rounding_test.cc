// Plans in bf16, bit for bit in every interleaving, against loops of their own
// that round where the plan stores: products once, sums once where all summands
// meet, at each hop of a ring, and on each host and over hosts on two levels.
#include <cmath>

#include "tests/ir/plans/every_plan.h"

namespace asyra {
namespace {

// To 8 significant bits, to nearest, ties to even.
double Bf16(double value) {
  int exponent = 0;
  double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
}

struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> values;

  double& at(int64_t i, int64_t j) { return values[i * columns + j]; }
  double at(int64_t i, int64_t j) const { return values[i * columns + j]; }
};

// Leading dimensions are rows too.
Matrix MatrixOf(const Tensor& tensor) {
  int64_t columns = tensor.shape().back();
  return {tensor.num_elements() / columns, columns, tensor.ToDoubles()};
}

// Over part `part` of `of` of the inner dimension. All is exact but the end.
Matrix Product(const Matrix& a, const Matrix& b, int part = 0, int of = 1) {
  Matrix c{a.rows, b.columns, std::vector<double>(a.rows * b.columns)};
  int64_t inner = a.columns / of;
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.columns; ++j) {
      double sum = 0;
      for (int64_t k = part * inner; k < (part + 1) * inner; ++k) {
        sum += a.at(i, k) * b.at(k, j);
      }
      c.at(i, j) = Bf16(sum);
    }
  }
  return c;
}

// Of the summands of all ranks, where `owner` is the one that ends up with it.
double SumOf(const std::vector<double>& summands, const PlanShape& shape,
             int owner) {
  int n = static_cast<int>(summands.size());
  double sum = 0;
  if (shape.route == PlanRoute::kRing) {
    sum = summands[(owner + 1) % n];
    for (int k = 2; k <= n; ++k) sum = Bf16(sum + summands[(owner + k) % n]);
    return sum;
  }
  if (shape.sums_in_pieces) {
    for (int k = 1; k < n; ++k) sum += summands[(owner + k) % n];
    return Bf16(Bf16(sum) + summands[owner]);
  }
  int inner = n;
  if (shape.route == PlanRoute::kTwoLevels)
    inner = static_cast<int>(shape.inner);
  for (int host = 0; host < n / inner; ++host) {
    double of_host = 0;
    for (int j = 0; j < inner; ++j) of_host += summands[host * inner + j];
    sum += inner < n ? Bf16(of_host) : of_host;
  }
  return Bf16(sum);
}

Matrix SumOf(const std::vector<Matrix>& summands, const PlanShape& shape,
             const std::function<int64_t(int64_t row)>& owner_of) {
  Matrix sum = summands[0];
  for (int64_t i = 0; i < sum.rows; ++i) {
    for (int64_t j = 0; j < sum.columns; ++j) {
      std::vector<double> of_ranks;
      for (const Matrix& of_rank : summands)
        of_ranks.push_back(of_rank.at(i, j));
      sum.at(i, j) = SumOf(of_ranks, shape, static_cast<int>(owner_of(i)));
    }
  }
  return sum;
}

constexpr PlanShape kSummedAtOnce;

class Rounding : public testing::TestWithParam<std::pair<int, int64_t>> {
 protected:
  int n() const { return GetParam().first; }
  int64_t parts() const { return GetParam().second; }
  int64_t rows() const { return n() * parts() * (n() < 8 ? 2 : 1); }

  // Against `sum(shape)` of the summands; the bits must depend on the route.
  void ExpectSums(const PlanCase& c, const std::vector<Tensor>& whole,
                  const std::vector<Matrix>& summands, const Shape& result,
                  const std::function<int64_t(int64_t row)>& owner_of) {
    Matrix at_once = SumOf(summands, kSummedAtOnce, owner_of);
    bool differs = false;
    int plans =
        ExpectEveryPlanGives(c, parts(), whole, [&](const PlanShape& shape) {
          Matrix sum = SumOf(summands, shape, owner_of);
          differs |= sum.values != at_once.values;
          return std::vector<Tensor>{
              Tensor::FromDoubles(DType::kBF16, result, sum.values)};
        });
    EXPECT_GT(plans, 12);
    // Two summands are rounded once on any route.
    EXPECT_EQ(differs, n() > 2) << c.name;
  }
};

TEST_P(Rounding, OfGathers) {
  PlanCase c = GatherMatmuls(n(), rows(), 2, DType::kBF16);
  std::vector<Tensor> whole = Quarters(c);
  Matrix x = MatrixOf(whole[0]);
  std::vector<Tensor> want;
  for (int k : {1, 2}) {
    want.push_back(Tensor::FromDoubles(DType::kBF16, {rows(), 2 * n()},
                                       Product(x, MatrixOf(whole[k])).values));
  }
  EXPECT_GT(ExpectEveryPlanGives(c, parts(), whole,
                                 [&](const PlanShape&) { return want; }),
            12);
}

TEST_P(Rounding, OfSums) {
  for (bool all : {false, true}) {
    PlanCase c = MatmulReduce(n(), rows(), all, DType::kBF16);
    std::vector<Tensor> whole = Quarters(c);
    std::vector<Matrix> summands;
    for (int r = 0; r < n(); ++r) {
      summands.push_back(
          Product(MatrixOf(whole[0]), MatrixOf(whole[1]), r, n()));
    }
    // The first dimension that divides is walked: the batch of 2, or the rows.
    bool batch = all && 2 % (n() * parts()) == 0;
    ExpectSums(c, whole, summands, {2, rows(), 4}, [&](int64_t row) {
      return batch ? row / rows() : row % rows() / (rows() / n());
    });
  }
}

TEST_P(Rounding, OfBothEnds) {
  PlanCase c = GatherMatmulScatter(n(), rows(), DType::kBF16);
  std::vector<Tensor> whole = Quarters(c);
  Matrix h = Product(MatrixOf(whole[0]), MatrixOf(whole[1]));
  for (double& value : h.values) value = std::max(value, 0.0);
  std::vector<Matrix> summands;
  for (int r = 0; r < n(); ++r) {
    summands.push_back(Product(h, MatrixOf(whole[2]), r, n()));
  }
  ExpectSums(c, whole, summands, {rows(), 3},
             [&](int64_t row) { return row / (rows() / n()); });
}

// Summands are exchanged as they are, and added by the op.
TEST_P(Rounding, OfExchanges) {
  PlanCase c = MatmulExchange(n(), rows(), DType::kBF16);
  std::vector<Tensor> whole = Quarters(c);
  std::vector<Matrix> summands;
  for (int r = 0; r < n(); ++r) {
    summands.push_back(Product(MatrixOf(whole[0]), MatrixOf(whole[1]), r, n()));
  }
  Matrix sum = SumOf(summands, kSummedAtOnce, [](int64_t) { return 0; });
  std::vector<Tensor> want = {
      Tensor::FromDoubles(DType::kBF16, {2, rows(), 4}, sum.values)};
  EXPECT_GT(ExpectEveryPlanGives(c, parts(), whole,
                                 [&](const PlanShape&) { return want; }),
            6);
}

INSTANTIATE_TEST_SUITE_P(RanksAndParts, Rounding,
                         testing::Values(std::pair(2, 1), std::pair(2, 3),
                                         std::pair(3, 1), std::pair(3, 3),
                                         std::pair(4, 1), std::pair(4, 2),
                                         std::pair(4, 4), std::pair(8, 1),
                                         std::pair(8, 2), std::pair(8, 4)),
                         [](const auto& info) {
                           return fmt::format("n{}_parts{}", info.param.first,
                                              info.param.second);
                         });

}  // namespace
}  // namespace asyra
