#include "ir/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "ir/support/check.h"

namespace asyra {
namespace {

template <typename T>
T Load(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Store(std::byte* data, int64_t index, T value) {
  std::memcpy(data + index * sizeof(T), &value, sizeof(T));
}

int64_t ClampToInt(double value, double low, double high) {
  if (std::isnan(value)) return 0;
  if (value <= low) return static_cast<int64_t>(low);
  // 2^63 itself does not fit.
  if (value >= high) {
    return high >= 0x1p63 ? INT64_MAX : static_cast<int64_t>(high);
  }
  return static_cast<int64_t>(value);
}

// [outer, dim, inner] as products of a shape around one dimension.
struct Around {
  int64_t outer = 1, inner = 1;
  Around(const Shape& shape, int dim) {
    for (int i = 0; i < dim; ++i) outer *= shape[i];
    for (size_t i = dim + 1; i < shape.size(); ++i) inner *= shape[i];
  }
};

}  // namespace

uint16_t FloatToHalf(float value) {
  uint32_t x = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>((x >> 16) & 0x8000);
  x &= 0x7fffffff;
  if (x > 0x7f800000) return sign | 0x7e00;   // NaN
  if (x >= 0x477ff000) return sign | 0x7c00;  // rounds to infinity
  if (x < 0x38800000) {
    // Subnormal: adding 0.5 puts the 10 fraction bits at the low end, rounded
    // by the float adder itself.
    float shifted = std::bit_cast<float>(x) + 0.5f;
    return sign |
           static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000);
  }
  uint32_t odd = (x >> 13) & 1;
  x += 0xc8000000 + 0xfff + odd;  // rebias the exponent by -112, round to even
  return sign | static_cast<uint16_t>(x >> 13);
}

float HalfToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1f;
  uint32_t fraction = bits & 0x3ff;
  if (exponent == 0) {
    float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -value : value;
  }
  uint32_t out = exponent == 0x1f ? 0x7f800000 : (exponent + 112) << 23;
  return std::bit_cast<float>(sign | out | fraction << 13);
}

uint16_t FloatToBFloat16(float value) {
  uint32_t x = std::bit_cast<uint32_t>(value);
  if ((x & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(x >> 16) | 64;
  return static_cast<uint16_t>((x + 0x7fff + ((x >> 16) & 1)) >> 16);
}

float BFloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

Tensor::Tensor(DType dtype, absl::Span<const int64_t> shape)
    : dtype_(dtype), shape_(shape.begin(), shape.end()) {
  auto storage = std::make_shared<std::vector<std::byte>>(bytes());
  data_ = storage->data();
  owner_ = std::move(storage);
}

Tensor Tensor::View(DType dtype, absl::Span<const int64_t> shape,
                    const std::byte* data, std::shared_ptr<const void> owner) {
  Tensor view;
  view.dtype_ = dtype;
  view.shape_.assign(shape.begin(), shape.end());
  view.data_ = data;
  view.owner_ = std::move(owner);
  return view;
}

Tensor Tensor::View(DType dtype, absl::Span<const int64_t> shape,
                    const std::byte* data,
                    std::shared_ptr<const ByteSource> source, int64_t offset) {
  const ByteSource* file = source.get();
  Tensor view = View(dtype, shape, data, std::move(source));
  view.source_ = file;
  view.source_offset_ = offset;
  return view;
}

Tensor Tensor::ViewAt(absl::Span<const int64_t> shape, int64_t offset) const {
  // A tensor in a file has no bytes in memory.
  const std::byte* data = data_ == nullptr ? nullptr : data_ + offset;
  Tensor view = View(dtype_, shape, data, owner_);
  view.source_ = source_;
  view.source_offset_ = source_offset_ + offset;
  return view;
}

Tensor Tensor::FromDoubles(DType dtype, absl::Span<const int64_t> shape,
                           absl::Span<const double> values) {
  Tensor tensor(dtype, shape);
  tensor.SetAll(values);
  return tensor;
}

Tensor Tensor::FromInts(DType dtype, absl::Span<const int64_t> shape,
                        absl::Span<const int64_t> values) {
  Tensor tensor(dtype, shape);
  ASYRA_CHECK(tensor.num_elements() == static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) tensor.SetInt(i, values[i]);
  return tensor;
}

std::byte* Tensor::mutable_data() { return const_cast<std::byte*>(data_); }

double Tensor::Get(int64_t i) const {
  switch (dtype_) {
    case DType::kBool:
      return Load<uint8_t>(data_, i) != 0;
    case DType::kI32:
      return Load<int32_t>(data_, i);
    case DType::kI64:
      return static_cast<double>(Load<int64_t>(data_, i));
    case DType::kF16:
      return HalfToFloat(Load<uint16_t>(data_, i));
    case DType::kBF16:
      return BFloat16ToFloat(Load<uint16_t>(data_, i));
    case DType::kF32:
      return Load<float>(data_, i);
    case DType::kF64:
      return Load<double>(data_, i);
  }
  return 0;
}

int64_t Tensor::GetInt(int64_t i) const {
  switch (dtype_) {
    case DType::kBool:
      return Load<uint8_t>(data_, i) != 0;
    case DType::kI32:
      return Load<int32_t>(data_, i);
    case DType::kI64:
      return Load<int64_t>(data_, i);
    default:
      return ClampToInt(Get(i), -0x1p63, 0x1p63);
  }
}

void Tensor::Set(int64_t i, double value) {
  std::byte* data = mutable_data();
  // Through float first: rounding twice costs half an ulp of a double, which
  // no tolerance in this project can see.
  float single = static_cast<float>(value);
  switch (dtype_) {
    case DType::kBool:
      return Store<uint8_t>(data, i, value != 0);
    case DType::kI32:
      return Store<int32_t>(
          data, i,
          static_cast<int32_t>(ClampToInt(value, INT32_MIN, INT32_MAX)));
    case DType::kI64:
      return Store<int64_t>(data, i, ClampToInt(value, -0x1p63, 0x1p63));
    case DType::kF16:
      return Store<uint16_t>(data, i, FloatToHalf(single));
    case DType::kBF16:
      return Store<uint16_t>(data, i, FloatToBFloat16(single));
    case DType::kF32:
      return Store<float>(data, i, single);
    case DType::kF64:
      return Store<double>(data, i, value);
  }
}

void Tensor::SetInt(int64_t i, int64_t value) {
  switch (dtype_) {
    case DType::kI32:
      return Store<int32_t>(mutable_data(), i, static_cast<int32_t>(value));
    case DType::kI64:
      return Store<int64_t>(mutable_data(), i, value);
    default:
      return Set(i, static_cast<double>(value));
  }
}

void Tensor::SetAll(absl::Span<const double> values) {
  ASYRA_CHECK(num_elements() == static_cast<int64_t>(values.size()));
  if (dtype_ == DType::kF32) {
    std::byte* data = mutable_data();
    for (size_t i = 0; i < values.size(); ++i) {
      Store<float>(data, i, static_cast<float>(values[i]));
    }
  } else {
    for (size_t i = 0; i < values.size(); ++i) Set(i, values[i]);
  }
}

std::vector<double> Tensor::ToDoubles() const {
  std::vector<double> values(num_elements());
  // The choice of type outside the loop: whole weights pass through here.
  auto read = [&](auto get) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = get(i);
  };
  if (dtype_ == DType::kF32) {
    read([this](size_t i) { return Load<float>(data_, i); });
  } else if (dtype_ == DType::kBF16) {
    read(
        [this](size_t i) { return BFloat16ToFloat(Load<uint16_t>(data_, i)); });
  } else {
    read([this](size_t i) { return Get(i); });
  }
  return values;
}

std::vector<int64_t> Tensor::ToInts() const {
  std::vector<int64_t> values(num_elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = GetInt(i);
  return values;
}

Tensor Tensor::Reshaped(absl::Span<const int64_t> shape) const {
  ASYRA_CHECK(NumElements(shape) == num_elements());
  return ViewAt(shape, 0);
}

Tensor Tensor::Slice(int dim, int64_t start, int64_t size) const {
  ASYRA_CHECK(start >= 0 && size >= 0 && start + size <= shape_[dim]);
  Around around(shape_, dim);
  Shape shape = shape_;
  shape[dim] = size;
  int64_t row = around.inner * SizeOf(dtype_);
  if (around.outer == 1) return ViewAt(shape, start * row);
  Tensor result(dtype_, shape);
  std::byte* out = result.mutable_data();
  if (result.bytes() == 0) return result;
  for (int64_t i = 0; i < around.outer; ++i) {
    std::memcpy(out + i * size * row, data_ + (i * shape_[dim] + start) * row,
                size * row);
  }
  return result;
}

Tensor Tensor::Concat(absl::Span<const Tensor> parts, int dim) {
  Shape shape = parts[0].shape_;
  shape[dim] = 0;
  for (const Tensor& part : parts) shape[dim] += part.shape_[dim];
  Tensor result(parts[0].dtype_, shape);
  Around around(shape, dim);
  int64_t row = around.inner * SizeOf(result.dtype_);
  std::byte* out = result.mutable_data();
  for (int64_t i = 0; i < around.outer; ++i) {
    for (const Tensor& part : parts) {
      int64_t bytes = part.shape_[dim] * row;
      if (bytes > 0) std::memcpy(out, part.data_ + i * bytes, bytes);
      out += bytes;
    }
  }
  return result;
}

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

Tensor Shard(const Tensor& whole, const Type& type, const Mesh& mesh,
             int64_t device) {
  Tensor shard = whole;
  for (int d = 0; d < type.rank(); ++d) {
    if (type.dims[d].axes.empty()) continue;
    int64_t size = type.dims[d].size / mesh.size(type.dims[d].axes);
    shard = shard.Slice(d, ShardStart(type.dims[d], mesh, device), size);
  }
  if (mesh.GroupIndex(device, type.partial) == 0) return shard;
  return Tensor(shard.dtype(), shard.shape());
}

namespace {

// The shards of a type that is not partial, from those of one that is: the
// sums of each group, on all its members.
std::vector<Tensor> SumPartial(absl::Span<const Tensor> shards,
                               const AxisList& axes, const Mesh& mesh) {
  std::vector<Tensor> sums(shards.size());
  for (int64_t device = 0; device < static_cast<int64_t>(shards.size());
       ++device) {
    if (mesh.GroupIndex(device, axes) != 0) continue;
    std::vector<double> sum(shards[device].num_elements(), 0.0);
    std::vector<int64_t> group = mesh.Group(device, axes);
    for (int64_t member : group) {
      std::vector<double> part = shards[member].ToDoubles();
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    Tensor whole(shards[device].dtype(), shards[device].shape());
    whole.SetAll(sum);
    for (int64_t member : group) sums[member] = whole;
  }
  return sums;
}

}  // namespace

Tensor Unshard(absl::Span<const Tensor> shards, const Type& type,
               const Mesh& mesh) {
  if (!type.partial.empty()) {
    Type summed = type;
    summed.partial.clear();
    return Unshard(SumPartial(shards, type.partial, mesh), summed, mesh);
  }
  Tensor whole(type.dtype, type.shape());
  std::byte* out = whole.mutable_data();
  int64_t element = SizeOf(type.dtype);
  for (int64_t device = static_cast<int64_t>(shards.size()); device-- > 0;) {
    const Tensor& shard = shards[device];
    if (shard.bytes() == 0) continue;
    Shape start;
    for (const Dim& dim : type.dims) {
      start.push_back(ShardStart(dim, mesh, device));
    }
    int last = shard.rank() - 1;
    int64_t row = last < 0 ? 1 : shard.size(last);
    for (int64_t i = 0; i < shard.num_elements(); i += row) {
      int64_t rest = i, offset = 0, stride = 1;
      for (int d = last; d >= 0; --d) {
        offset += (start[d] + rest % shard.size(d)) * stride;
        rest /= shard.size(d);
        stride *= type.size(d);
      }
      std::memcpy(out + offset * element, shard.data() + i * element,
                  row * element);
    }
  }
  return whole;
}

}  // namespace asyra
