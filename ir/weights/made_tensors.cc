#include "ir/weights/made_tensors.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "ir/support/byte_source.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

absl::Status ReadBytes(const Tensor& from, int64_t offset,
                       absl::Span<std::byte> to) {
  if (from.source() != nullptr) {
    return from.source()->Read(from.source_offset() + offset, to);
  }
  std::memcpy(to.data(), from.data() + offset, to.size());
  return absl::OkStatus();
}

class StackedBytes : public ByteSource {
 public:
  explicit StackedBytes(absl::Span<const Tensor> parts)
      : parts_(parts.begin(), parts.end()) {}

  absl::Status Read(int64_t offset, absl::Span<std::byte> to) const override {
    int64_t size = parts_[0].bytes();
    while (!to.empty()) {
      int64_t part = offset / size, at = offset % size;
      size_t bytes = std::min(to.size(), static_cast<size_t>(size - at));
      ASYRA_RETURN_IF_ERROR(ReadBytes(parts_[part], at, to.first(bytes)));
      offset += static_cast<int64_t>(bytes);
      to.remove_prefix(bytes);
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<Tensor> parts_;
};

class RoundedBytes : public ByteSource {
 public:
  RoundedBytes(Tensor from, DType dtype)
      : from_(std::move(from)), dtype_(dtype) {}

  absl::Status Read(int64_t offset, absl::Span<std::byte> to) const override {
    constexpr int64_t kMost = 1 << 16;  // elements at a time
    int64_t size = SizeOf(dtype_);
    while (!to.empty()) {
      int64_t first = offset / size, skipped = offset % size;
      int64_t wanted = skipped + static_cast<int64_t>(to.size());
      int64_t count = std::min((wanted + size - 1) / size, kMost);
      ASYRA_ASSIGN_OR_RETURN(Tensor rounded, Elements(first, count));
      int64_t bytes = std::min(count * size, wanted) - skipped;
      std::memcpy(to.data(), rounded.data() + skipped, bytes);
      offset += bytes;
      to.remove_prefix(bytes);
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Tensor> Elements(int64_t first, int64_t count) const {
    Tensor read(from_.dtype(), {count});
    ASYRA_RETURN_IF_ERROR(
        ReadBytes(from_, first * SizeOf(from_.dtype()),
                  {read.mutable_data(), static_cast<size_t>(read.bytes())}));
    return Tensor::FromDoubles(dtype_, {count}, read.ToDoubles());
  }

  const Tensor from_;
  const DType dtype_;
};

}  // namespace

Tensor StackedTensor(absl::Span<const Tensor> parts) {
  const Tensor& first = parts.front();
  Shape shape = first.shape();
  shape.insert(shape.begin(), static_cast<int64_t>(parts.size()));
  return Tensor::View(first.dtype(), shape, nullptr,
                      std::make_shared<StackedBytes>(parts), 0);
}

Tensor RoundedTensor(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  return Tensor::View(dtype, tensor.shape(), nullptr,
                      std::make_shared<RoundedBytes>(tensor, dtype), 0);
}

}  // namespace asyra
