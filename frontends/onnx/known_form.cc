#include "frontends/onnx/known_form.h"

#include <cmath>

namespace asyra::onnx_import {
namespace {

// The dimensions that are not of size 1.
std::vector<int> LongDims(const Tensor& data) {
  std::vector<int> dims;
  for (int i = 0; i < data.rank(); ++i) {
    if (data.size(i) != 1) dims.push_back(i);
  }
  return dims;
}

}  // namespace

std::optional<LineForm> AsLine(const Tensor& data) {
  // Above this, f32 does not hold every integer.
  constexpr double kMostExact = 1 << 24;
  std::vector<int> dims = LongDims(data);
  bool dtype_fits = data.dtype() != DType::kBool && SizeOf(data.dtype()) >= 4;
  if (!dtype_fits || dims.size() != 1 || data.num_elements() < 4) {
    return std::nullopt;
  }
  double first = data.Get(0), step = data.Get(1) - first;
  double last = first + step * static_cast<double>(data.num_elements() - 1);
  auto exact = [](double x) {
    return std::trunc(x) == x && std::abs(x) <= kMostExact;
  };
  if (!exact(first) || !exact(step) || !exact(last) || step == 0) {
    return std::nullopt;
  }
  for (int64_t i = 0; i < data.num_elements(); ++i) {
    if (data.Get(i) != first + step * static_cast<double>(i)) {
      return std::nullopt;
    }
  }
  return LineForm{dims[0], static_cast<int64_t>(first),
                  static_cast<int64_t>(step)};
}

std::optional<TriangleForm> AsTriangle(const Tensor& data) {
  std::vector<int> dims = LongDims(data);
  if (data.dtype() != DType::kBool || dims.size() != 2) return std::nullopt;
  int64_t rows = data.size(dims[0]), columns = data.size(dims[1]);
  std::vector<int64_t> lengths(rows, 0);  // of each row's run of true
  std::optional<int64_t> diagonal;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      if (data.GetInt(r * columns + c) == 0) continue;
      if (lengths[r] != c) return std::nullopt;
      ++lengths[r];
    }
    if (lengths[r] > 0 && lengths[r] < columns) diagonal = lengths[r] - 1 - r;
  }
  if (!diagonal.has_value()) return std::nullopt;
  for (int64_t r = 0; r < rows; ++r) {
    if (lengths[r] != std::clamp(r + *diagonal + 1, int64_t{0}, columns)) {
      return std::nullopt;
    }
  }
  return TriangleForm{dims[0], dims[1], *diagonal};
}

}  // namespace asyra::onnx_import
