#include "tools/train/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "ir/support/status.h"
#include "ir/weights/weight_store.h"
#include "tools/train/train_check.h"

namespace asyra {
namespace {

// The part of the largest gradient that errors of smaller ones are relative to.
constexpr double kFloor = 1e-3;

bool NamesFit(const std::string& a, const std::string& b) {
  return a == b || a.ends_with("." + b) || b.ends_with("." + a);
}

// The rows and columns that are no padding.
Tensor WithoutPadding(Tensor gradient, const Shape& shape) {
  for (int d = 0; d < gradient.rank(); ++d) {
    if (gradient.size(d) != shape[d]) gradient = gradient.Slice(d, 0, shape[d]);
  }
  return gradient;
}

// Returns how far `computed` is from `recorded` in any of the forms that an
// exporter may have given it; none: they have other shapes.
std::optional<double> Distance(const Tensor& computed, const Tensor& recorded,
                               double floor) {
  std::optional<double> least;
  auto compare = [&](const Tensor& form) {
    absl::StatusOr<double> error = ErrorOfLargest(computed, form, floor);
    if (error.ok() && (!least.has_value() || *error < *least)) least = *error;
  };
  if (computed.num_elements() == recorded.num_elements()) {
    compare(recorded);
    if (recorded.rank() == 2) compare(TransposedMatrix(recorded));
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
      const std::vector<WholeGradient>& computed) {
    std::vector<std::pair<std::string, const Tensor*>> unnamed;
    for (const WholeGradient& one : computed) {
      const std::string& name = one.name;
      const Tensor& tensor = one.gradient;
      auto found = FindByName(one);
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
  using Left = std::map<std::string, const Tensor*>;

  Left::iterator FindByName(const WholeGradient& computed) {
    auto fits = [&](const std::string& name) {
      return std::find_if(left_.begin(), left_.end(), [&](const auto& one) {
        return NamesFit(name, one.first);
      });
    };
    auto found = fits(computed.name);
    for (const WeightOrigin::Tied& tied : computed.tied) {
      if (found == left_.end()) found = fits(tied.tensor);
    }
    return found;
  }

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

  Left left_;
  const double rtol_;
  double floor_ = 0;
  GradientCheck check_;
};

}  // namespace

std::vector<WholeGradient> WholeGradients(
    const Program& program, const std::map<std::string, Tensor>& gradients) {
  // By name, of those that have parts.
  std::map<std::string, WholeGradient> whole;
  for (const Input& input : program.inputs) {
    auto found = gradients.find(program.value_name(input.value));
    if (input.role != InputRole::kParam || found == gradients.end()) continue;
    WeightOrigin origin = OriginOf(program, input);
    Tensor part = WithoutPadding(found->second, program.GivenShape(input));
    auto [entry, added] = whole.try_emplace(origin.tensor);
    if (added) {
      entry->second = {origin.tensor, origin.tied,
                       Tensor(part.dtype(), origin.shape)};
    }
    PutPart(origin, part, &entry->second.gradient);
  }
  std::vector<WholeGradient> list;
  for (const Input& input : program.inputs) {
    WeightOrigin origin = OriginOf(program, input);
    auto found = whole.find(origin.tensor);
    if (input.role != InputRole::kParam || found == whole.end()) continue;
    if (origin.transposed) {
      found->second.gradient = TransposedMatrix(found->second.gradient);
    }
    list.push_back(std::move(found->second));
    whole.erase(found);
  }
  return list;
}

absl::StatusOr<GradientCheck> CheckGradients(
    const std::vector<WholeGradient>& computed, const WeightStore& recorded,
    double rtol) {
  return GradientChecker(recorded, rtol).Run(computed);
}

}  // namespace asyra
