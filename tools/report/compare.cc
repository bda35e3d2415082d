#include "tools/report/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/support/status.h"

namespace asyra {

Tolerance ToleranceFor(DType dtype) {
  if (dtype == DType::kF16) return {.relative = 2e-3, .absolute = 2e-3};
  if (dtype == DType::kBF16) return {.relative = 2e-2, .absolute = 2e-2};
  return {};
}

double ShardedToleranceFor(DType dtype) {
  return IsFloat(dtype) && SizeOf(dtype) < SizeOf(DType::kF32)
             ? ToleranceFor(dtype).relative
             : 1e-5;
}

absl::StatusOr<Comparison> Compare(const Tensor& actual, const Tensor& expected,
                                   const Tolerance& tolerance) {
  // A model may be computed in another type than was recorded (--dtype), but
  // 16 bits say too little of a finer result.
  bool floats = IsFloat(actual.dtype()) && IsFloat(expected.dtype()) &&
                SizeOf(expected.dtype()) >= SizeOf(DType::kF32);
  if ((actual.dtype() != expected.dtype() && !floats) ||
      actual.shape() != expected.shape()) {
    return Invalid("it is {}{}, expected is {}{}", ToString(actual.dtype()),
                   ShapeToString(actual.shape()), ToString(expected.dtype()),
                   ShapeToString(expected.shape()));
  }
  Comparison result;
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    double a = actual.Get(i), e = expected.Get(i);
    if (std::isfinite(e)) {
      result.largest = std::max(result.largest, std::abs(e));
    }
    bool same = IsFloat(expected.dtype())
                    ? a == e || (std::isnan(a) && std::isnan(e))
                    : actual.GetInt(i) == expected.GetInt(i);
    if (same) continue;
    double error = std::abs(a - e);
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    result.max_abs_error = std::max(result.max_abs_error, error);
    if (std::abs(e) > tolerance.absolute) {
      result.max_rel_error =
          std::max(result.max_rel_error, error / std::abs(e));
    }
    bool near = IsFloat(expected.dtype()) && std::isfinite(error) &&
                error <= tolerance.absolute + tolerance.relative * std::abs(e);
    if (near) continue;
    if (result.wrong++ == 0) result.first_wrong = i;
  }
  return result;
}

double ErrorOfLargest(const Comparison& comparison) {
  if (comparison.max_abs_error == 0) return 0;
  return comparison.max_abs_error / comparison.largest;
}

std::string Summary(const Tensor& tensor) {
  if (tensor.num_elements() == 0) return "empty";
  double least = tensor.Get(0), most = least, sum = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    double value = tensor.Get(i);
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
  }
  return fmt::format("min {:.6g}, max {:.6g}, mean {:.6g}", least, most,
                     sum / static_cast<double>(tensor.num_elements()));
}

}  // namespace asyra
