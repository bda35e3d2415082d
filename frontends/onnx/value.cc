#include "frontends/onnx/value.h"

#include <cstring>

namespace asyra::onnx_import {
namespace {

// Returns whether all rows of [outer, size, row_bytes] are like the first.
bool IsUniform(const std::byte* data, int64_t outer, int64_t size,
               int64_t row_bytes) {
  for (int64_t o = 0; o < outer; ++o, data += size * row_bytes) {
    for (int64_t i = 1; i < size; ++i) {
      if (std::memcmp(data, data + i * row_bytes, row_bytes) != 0) return false;
    }
  }
  return true;
}

Tensor Compressed(Tensor data) {
  for (int dim = 0; dim < data.rank(); ++dim) {
    if (data.size(dim) <= 1 || data.num_elements() == 0) continue;
    int64_t outer = 1;
    for (int i = 0; i < dim; ++i) outer *= data.size(i);
    int64_t rows = outer * data.size(dim);
    if (IsUniform(data.data(), outer, data.size(dim), data.bytes() / rows)) {
      data = data.Slice(dim, 0, 1);
    }
  }
  return data;
}

}  // namespace

Value Value::Known(const Tensor& data) { return Known(data, data.shape()); }

Value Value::Known(const Tensor& data, absl::Span<const int64_t> shape) {
  Value value;
  value.type_ = Type(data.dtype(), shape);
  Shape full(shape.size() - data.rank(), 1);
  full.insert(full.end(), data.shape().begin(), data.shape().end());
  value.data_ = Compressed(data.Reshaped(full));
  return value;
}

Value Value::Computed(ValueId id, Type type) {
  Value value;
  value.id_ = id;
  value.type_ = std::move(type);
  return value;
}

Value Value::Sequence(std::vector<Value> parts) {
  Value value;
  value.is_sequence_ = true;
  value.parts_ = std::move(parts);
  return value;
}

Tensor Value::Expanded() const {
  Tensor whole = *data_;
  for (int dim = rank() - 1; dim >= 0; --dim) {
    if (whole.size(dim) == type_.size(dim)) continue;
    std::vector<Tensor> copies(type_.size(dim), whole);
    Shape empty = whole.shape();
    empty[dim] = 0;
    whole =
        copies.empty() ? Tensor(dtype(), empty) : Tensor::Concat(copies, dim);
  }
  return whole;
}

}  // namespace asyra::onnx_import
