#include "passes/train/constant_data.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace asyra {
namespace {

constexpr double kHidden = -1e3;

// Returns the tolerance of 16-bit data, and of angles of many positions in 32
// bits.
double ToleranceOf(const Tensor& data) {
  switch (data.dtype()) {
    case DType::kF16:
      return 4e-3;
    case DType::kBF16:
      return 3e-2;
    default:
      return 2e-4;
  }
}

// Returns whether both of two kinds of elements occur, and no others. Most
// weights fail at the first one.
template <typename A, typename B>
bool HasBoth(const Tensor& data, A is_a, B is_b) {
  bool a = false, b = false;
  for (int64_t i = 0; i < data.num_elements(); ++i) {
    double x = data.Get(i);
    if (is_a(x)) {
      a = true;
    } else if (is_b(x)) {
      b = true;
    } else {
      return false;
    }
  }
  return a && b;
}

struct Matrices {
  int64_t count, rows, columns;
  explicit Matrices(const Tensor& data)
      : rows(data.size(data.rank() - 2)), columns(data.size(data.rank() - 1)) {
    count = data.num_elements() / std::max<int64_t>(1, rows * columns);
  }
};

// One matrix, from element `at` on.
bool IsPlaneAt(const Tensor& data, int64_t at, int64_t rows, int64_t columns,
               bool* slopes) {
  auto element = [&](int64_t r, int64_t c) {
    return data.Get(at + r * columns + c);
  };
  // Three points that are seen give the plane.
  struct Step {
    double by = 0;
    bool known = false;
  } down, right;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      double x = element(r, c);
      if (!(x > kHidden)) continue;
      if (!right.known && c + 1 < columns && element(r, c + 1) > kHidden) {
        right = {element(r, c + 1) - x, true};
      }
      if (!down.known && r + 1 < rows && element(r + 1, c) > kHidden) {
        down = {element(r + 1, c) - x, true};
      }
    }
    if (right.known && down.known) break;
  }
  double first = 0, largest = 0;
  bool any = false;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      double x = element(r, c);
      if (std::isnan(x)) return false;
      if (!(x > kHidden)) continue;
      double line =
          down.by * static_cast<double>(r) + right.by * static_cast<double>(c);
      if (!any) first = x - line;
      any = true;
      largest = std::max(largest, std::abs(x));
      if (std::abs(x - first - line) > ToleranceOf(data) * largest) {
        return false;
      }
    }
  }
  *slopes |= any && largest > 0 &&
             (std::abs(down.by) > ToleranceOf(data) * largest / 10 ||
              std::abs(right.by) > ToleranceOf(data) * largest / 10);
  return true;
}

// One line of `count` elements, `stride` apart.
bool IsWave(const Tensor& data, int64_t at, int64_t stride, int64_t count,
            double tolerance, bool* turns) {
  auto x = [&](int64_t i) { return data.Get(at + i * stride); };
  // Twice the cosine of the angle, by least squares.
  double product = 0, square = 0;
  for (int64_t i = 1; i + 1 < count; ++i) {
    product += x(i) * (x(i - 1) + x(i + 1));
    square += x(i) * x(i);
  }
  double twice = square > 0 ? product / square : 2;
  if (std::abs(twice) > 2.01) return false;
  // A line, and a wave of many more points than these, have nearly 2.
  constexpr double kLine = 1.9;
  bool moves = false;
  for (int64_t i = 1; i + 1 < count; ++i) {
    if (std::abs(x(i - 1) + x(i + 1) - twice * x(i)) > 4 * tolerance) {
      return false;
    }
    moves |= std::abs(x(i) - x(0)) > tolerance;
  }
  *turns |= moves && twice < kLine;
  return true;
}

bool AreWavesAlong(const Tensor& data, int dim, double tolerance) {
  int64_t count = data.size(dim), inner = 1;
  constexpr int64_t kShortest = 5;  // fewer fit by chance
  if (count < kShortest) return false;
  for (int d = dim + 1; d < data.rank(); ++d) inner *= data.size(d);
  int64_t outer = data.num_elements() / (count * inner);
  bool turns = false;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      if (!IsWave(data, o * count * inner + i, inner, count, tolerance,
                  &turns)) {
        return false;
      }
    }
  }
  return turns;
}

// Elements of the last dimension that are `apart` are sine and cosine of one
// angle, in blocks of twice as many.
bool ArePairs(const Tensor& data, int64_t apart) {
  int64_t columns = data.size(data.rank() - 1);
  if (apart == 0 || columns % (2 * apart) != 0) return false;
  for (int64_t at = 0; at < data.num_elements(); at += 2 * apart) {
    for (int64_t i = 0; i < apart; ++i) {
      double a = data.Get(at + i), b = data.Get(at + apart + i);
      if (!(std::abs(a * a + b * b - 1) <= 4 * ToleranceOf(data))) return false;
    }
  }
  return true;
}

}  // namespace

bool IsZeroOneMask(const Tensor& data) {
  return HasBoth(
      data, [](double x) { return x == 0; }, [](double x) { return x == 1; });
}

bool IsAddedMask(const Tensor& data) {
  return HasBoth(
      data, [](double x) { return x == 0; },
      [](double x) { return x < kHidden; });
}

bool IsTriangle(const Tensor& data) {
  if (data.rank() < 2) return false;
  int64_t rows = data.size(data.rank() - 2),
          columns = data.size(data.rank() - 1);
  double corner = data.Get((rows - 1) * columns);  // the last row's first
  bool lower = corner != 0;
  double number = lower ? corner : data.Get(columns - 1);
  if (number == 0) return false;
  // The first row says how far the diagonal is from the corner.
  int64_t filled = 0;
  while (filled < columns && (data.Get(filled) == number) == lower) ++filled;
  // Lower: columns before `filled + row` hold the scalar; upper: the others.
  bool zeros = false;
  for (int64_t i = 0; i < data.num_elements(); ++i) {
    int64_t row = i / columns % rows, column = i % columns;
    bool inside = (column < filled + row) == lower;
    if (data.Get(i) != (inside ? number : 0)) return false;
    zeros |= !inside;
  }
  return zeros;
}

bool IsPlane(const Tensor& data) {
  if (data.rank() < 2) return false;
  Matrices all(data);
  constexpr int64_t kShortest = 3;
  if (std::max(all.rows, all.columns) < kShortest) return false;
  bool slopes = false;
  for (int64_t m = 0; m < all.count; ++m) {
    if (!IsPlaneAt(data, m * all.rows * all.columns, all.rows, all.columns,
                   &slopes)) {
      return false;
    }
  }
  return slopes;
}

bool IsGeometric(const Tensor& data) {
  int64_t count = data.num_elements();
  constexpr int64_t kShortest = 3;
  if (count < kShortest || data.Get(0) == 0) return false;
  double factor = data.Get(1) / data.Get(0);
  if (!(std::abs(factor - 1) > 1e-6) || factor == 0) return false;
  for (int64_t i = 1; i < count; ++i) {
    double expected = data.Get(i - 1) * factor;
    if (!(std::abs(data.Get(i) - expected) <=
          ToleranceOf(data) * std::abs(expected))) {
      return false;
    }
  }
  return true;
}

bool IsSines(const Tensor& data) {
  if (data.rank() < 2 || data.num_elements() == 0) return false;
  double largest = 0;
  for (int64_t i = 0; i < data.num_elements(); ++i) {
    if (!std::isfinite(data.Get(i))) return false;
    largest = std::max(largest, std::abs(data.Get(i)));
  }
  if (largest == 0) return false;
  for (int dim = 0; dim < data.rank(); ++dim) {
    if (AreWavesAlong(data, dim, ToleranceOf(data) * largest)) return true;
  }
  int64_t columns = data.size(data.rank() - 1);
  constexpr int64_t kFewest = 4;  // angles: fewer fit by chance
  if (data.num_elements() < 2 * kFewest) return false;
  return ArePairs(data, columns / 2) || ArePairs(data, columns / 4) ||
         ArePairs(data, 1);
}

}  // namespace asyra
