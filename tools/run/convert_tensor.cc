#include "tools/run/convert_tensor.h"

#include <cmath>
#include <string>

#include "fmt/format.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

bool SetFromInt(int64_t value, int64_t i, Tensor* to) {
  if (!IsFloat(to->dtype())) {
    if (to->dtype() == DType::kBool && value != 0 && value != 1) return false;
    to->SetInt(i, value);
    return to->GetInt(i) == value;
  }
  auto real = static_cast<double>(value);
  to->Set(i, real);
  // 2^63 - 1 becomes 2^63, which is no int64_t.
  return to->Get(i) == real && real < 0x1p63 &&
         static_cast<int64_t>(real) == value;
}

bool SetFromDouble(double value, int64_t i, bool round, Tensor* to) {
  if (IsFloat(to->dtype())) {
    to->Set(i, value);
    double kept = to->Get(i);
    return kept == value || (std::isnan(kept) && std::isnan(value)) ||
           (round && std::isfinite(kept));
  }
  bool integer = std::trunc(value) == value && std::abs(value) < 0x1p63;
  return integer && SetFromInt(static_cast<int64_t>(value), i, to);
}

}  // namespace

absl::StatusOr<Tensor> ConvertTensor(const Tensor& tensor, DType dtype,
                                     bool round) {
  if (tensor.dtype() == dtype) return tensor;
  Tensor result(dtype, tensor.shape());
  bool from_float = IsFloat(tensor.dtype());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    bool kept = from_float ? SetFromDouble(tensor.Get(i), i, round, &result)
                           : SetFromInt(tensor.GetInt(i), i, &result);
    if (kept) continue;
    return Invalid("element {} is {} of type {}, which {} does not hold", i,
                   from_float ? fmt::format("{}", tensor.Get(i))
                              : fmt::format("{}", tensor.GetInt(i)),
                   ToString(tensor.dtype()), ToString(dtype));
  }
  return result;
}

}  // namespace asyra
