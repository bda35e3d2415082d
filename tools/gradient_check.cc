#include "tools/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "ir/support/status.h"
#include "ir/weight_store.h"
#include "tools/train_check.h"

namespace asyra {
namespace {

// Of the largest gradient: what errors of smaller ones are relative to.
constexpr double kFloor = 1e-3;

bool NamesFit(const std::string& a, const std::string& b) {
  return a == b || a.ends_with("." + b) || b.ends_with("." + a);
}

Tensor Transposed(const Tensor& matrix) {
  std::vector<double> elements(matrix.num_elements());
  int64_t rows = matrix.size(0), columns = matrix.size(1);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      elements[c * rows + r] = matrix.Get(r * columns + c);
    }
  }
  return Tensor::FromDoubles(matrix.dtype(), {columns, rows}, elements);
}

// "w.0", "w.1", ... joined to "w".
std::map<std::string, Tensor> WithPartsJoined(
    const std::map<std::string, Tensor>& computed) {
  std::map<std::string, Tensor> joined = computed;
  for (const auto& [name, tensor] : computed) {
    if (!name.ends_with(".0")) continue;
    std::string whole = name.substr(0, name.size() - 2);
    std::vector<Tensor> parts;
    std::vector<std::string> names;
    while (true) {
      names.push_back(fmt::format("{}.{}", whole, parts.size()));
      auto part = computed.find(names.back());
      if (part == computed.end()) break;
      parts.push_back(part->second);
    }
    if (parts.size() < 2 || computed.contains(whole)) continue;
    for (const std::string& part : names) joined.erase(part);
    joined[whole] = Tensor::Concat(parts, tensor.rank() - 1);
  }
  return joined;
}

// How far `computed` is from `recorded` in any of the forms that an exporter
// may have given it; none: they have other shapes.
std::optional<double> Distance(const Tensor& computed, const Tensor& recorded,
                               double floor) {
  std::optional<double> least;
  auto compare = [&](const Tensor& form) {
    absl::StatusOr<double> error = ErrorOfLargest(computed, form, floor);
    if (error.ok() && (!least.has_value() || *error < *least)) least = *error;
  };
  if (computed.num_elements() == recorded.num_elements()) {
    compare(recorded);
    if (recorded.rank() == 2) compare(Transposed(recorded));
    return least;
  }
  if (recorded.rank() != 2 || computed.rank() < 2) return least;
  int64_t columns = recorded.size(1);
  int64_t rows = computed.num_elements() / std::max<int64_t>(1, columns);
  if (computed.size(computed.rank() - 1) != columns ||
      rows >= recorded.size(0)) {
    return least;
  }
  Tensor rest = recorded.Slice(0, rows, recorded.size(0) - rows);
  std::vector<double> zeros = rest.ToDoubles();
  if (std::all_of(zeros.begin(), zeros.end(),
                  [](double x) { return x == 0; })) {
    compare(recorded.Slice(0, 0, rows));
  }
  return least;
}

// The one row of a matrix that is 0 as recorded and is not as computed, and
// the only one that differs so: -1 where there is none.
int64_t PaddingRow(const Tensor& computed, const Tensor& recorded) {
  if (computed.rank() != 2 || computed.shape() != recorded.shape()) return -1;
  auto is_zero = [](const Tensor& row) {
    std::vector<double> elements = row.ToDoubles();
    return std::all_of(elements.begin(), elements.end(),
                       [](double x) { return x == 0; });
  };
  int64_t found = -1;
  for (int64_t row = 0; row < recorded.size(0); ++row) {
    if (!is_zero(recorded.Slice(0, row, 1))) continue;
    if (is_zero(computed.Slice(0, row, 1))) continue;
    if (found >= 0) return -1;
    found = row;
  }
  return found;
}

Tensor WithoutRow(const Tensor& matrix, int64_t row) {
  std::vector<Tensor> parts = {
      matrix.Slice(0, 0, row),
      matrix.Slice(0, row + 1, matrix.size(0) - row - 1)};
  return Tensor::Concat(parts, 0);
}

class GradientChecker {
 public:
  GradientChecker(const WeightStore& recorded, double rtol) : rtol_(rtol) {
    for (const auto& [name, tensor] : recorded) {
      left_.emplace(name, &tensor);
      for (double x : tensor.ToDoubles()) {
        floor_ = std::max(floor_, kFloor * std::abs(x));
      }
    }
  }

  absl::StatusOr<GradientCheck> Run(
      const std::map<std::string, Tensor>& computed) {
    std::vector<std::pair<std::string, const Tensor*>> unnamed;
    for (const auto& [name, tensor] : computed) {
      // A copy, as clang does not capture parts of a structured binding.
      auto fits = [name = name](const auto& one) {
        return NamesFit(name, one.first);
      };
      auto found = std::find_if(left_.begin(), left_.end(), fits);
      if (found == left_.end()) {
        unnamed.emplace_back(name, &tensor);
        continue;
      }
      std::optional<double> error = Distance(tensor, *found->second, floor_);
      int64_t padding = PaddingRow(tensor, *found->second);
      if (padding >= 0) {
        error = Distance(WithoutRow(tensor, padding),
                         WithoutRow(*found->second, padding), floor_);
        check_.padding.push_back(fmt::format("row {} of {}", padding, name));
      }
      if (!error.has_value()) {
        return Invalid("the gradient of {} has shape {}, recorded is {}", name,
                       ShapeToString(tensor.shape()),
                       ShapeToString(found->second->shape()));
      }
      Count(name, *error);
      ++check_.by_name;
      left_.erase(found);
    }
    for (const auto& [name, tensor] : unnamed) FindByValue(name, *tensor);
    for (const auto& [name, tensor] : left_) check_.missing.push_back(name);
    return std::move(check_);
  }

 private:
  void FindByValue(const std::string& name, const Tensor& tensor) {
    auto nearest = left_.end();
    double least = rtol_;
    for (auto one = left_.begin(); one != left_.end(); ++one) {
      std::optional<double> error = Distance(tensor, *one->second, floor_);
      if (!error.has_value() || !(*error <= least)) continue;
      least = *error;
      nearest = one;
    }
    if (nearest == left_.end()) {
      check_.unknown.push_back(name);
      return;
    }
    Count(name, least);
    ++check_.by_value;
    left_.erase(nearest);
  }

  void Count(const std::string& name, double error) {
    // Nothing is worse than what is no number.
    if (std::isnan(check_.worst) || error < check_.worst) return;
    check_.worst = error;
    check_.worst_name = name;
  }

  std::map<std::string, const Tensor*> left_;
  const double rtol_;
  double floor_ = 0;
  GradientCheck check_;
};

}  // namespace

absl::StatusOr<GradientCheck> CheckGradients(
    const std::map<std::string, Tensor>& computed, const WeightStore& recorded,
    double rtol) {
  return GradientChecker(recorded, rtol).Run(WithPartsJoined(computed));
}

}  // namespace asyra
