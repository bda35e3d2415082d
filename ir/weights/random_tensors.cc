#include "ir/weights/random_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ir/support/byte_source.h"
#include "ir/support/hash.h"
#include "ir/support/random.h"

namespace asyra {
namespace {

constexpr int kQuantileBits = 16;
constexpr int kQuantiles = 1 << kQuantileBits;
constexpr int kPerWord = 64 / kQuantileBits;

// The positive half of the normal distribution in shares of equal probability:
// the middle of each. Newton's method from the share before, on a convex
// function, so that it comes from one side.
std::vector<double> PositiveQuantiles() {
  std::vector<double> quantiles(kQuantiles / 2);
  double x = 0;
  for (int i = 0; i < kQuantiles / 2; ++i) {
    double above = 0.5 - (i + 0.5) / kQuantiles;
    for (int step = 0; step < 8; ++step) {
      double density = std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
      x += (std::erfc(x / M_SQRT2) / 2 - above) / density;
    }
    quantiles[i] = x;
  }
  return quantiles;
}

std::shared_ptr<const std::vector<std::byte>> QuantileBytes(DType dtype,
                                                            double deviation) {
  static const auto& positive =
      *new const std::vector<double>(PositiveQuantiles());
  std::vector<double> all;
  all.reserve(kQuantiles);
  for (double x : positive) all.push_back(x * deviation);
  for (double x : positive) all.push_back(-x * deviation);
  Tensor values = Tensor::FromDoubles(dtype, {kQuantiles}, all);
  return std::make_shared<const std::vector<std::byte>>(
      values.data(), values.data() + values.bytes());
}

// Bytes of a tensor whose elements are drawn as they are read.
class DrawnBytes : public ByteSource {
 public:
  explicit DrawnBytes(int64_t element_bytes) : size_(element_bytes) {}

  absl::Status Read(int64_t offset, absl::Span<std::byte> to) const override {
    while (!to.empty()) {
      int64_t first = offset / size_, skipped = offset % size_;
      auto left = static_cast<int64_t>(to.size());
      int64_t bytes = left;
      if (skipped == 0 && left >= size_) {
        bytes -= left % size_;
        Draw(first, bytes / size_, to.data());
      } else {  // part of an element
        std::array<std::byte, 8> element;
        Draw(first, 1, element.data());
        bytes = std::min(left, size_ - skipped);
        std::memcpy(to.data(), element.data() + skipped, bytes);
      }
      offset += bytes;
      to.remove_prefix(bytes);
    }
    return absl::OkStatus();
  }

 protected:
  // Elements [first, first + count).
  virtual void Draw(int64_t first, int64_t count, std::byte* to) const = 0;

 private:
  const int64_t size_;
};

template <int bytes>
class NormalBytes final : public DrawnBytes {
 public:
  NormalBytes(uint64_t key,
              std::shared_ptr<const std::vector<std::byte>> quantiles)
      : DrawnBytes(bytes), key_(key), quantiles_(std::move(quantiles)) {}

 private:
  void Draw(int64_t first, int64_t count, std::byte* to) const override {
    const std::byte* quantiles = quantiles_->data();
    int64_t end = first + count;
    for (int64_t i = first; i < end;) {
      uint64_t word = SplitMix(key_, static_cast<uint64_t>(i / kPerWord));
      word >>= kQuantileBits * (i % kPerWord);
      int64_t word_end = std::min(end, (i / kPerWord + 1) * kPerWord);
      for (; i < word_end; ++i, to += bytes, word >>= kQuantileBits) {
        std::memcpy(to, quantiles + (word % kQuantiles) * bytes, bytes);
      }
    }
  }

  const uint64_t key_;
  const std::shared_ptr<const std::vector<std::byte>> quantiles_;
};

template <typename T>
class UniformBytes final : public DrawnBytes {
 public:
  UniformBytes(uint64_t key, uint64_t limit)
      : DrawnBytes(sizeof(T)), key_(key), limit_(limit) {}

 private:
  void Draw(int64_t first, int64_t count, std::byte* to) const override {
    for (int64_t i = first; i < first + count; ++i, to += sizeof(T)) {
      unsigned __int128 scaled = SplitMix(key_, static_cast<uint64_t>(i));
      auto value = static_cast<T>((scaled * limit_) >> 64);
      std::memcpy(to, &value, sizeof(T));
    }
  }

  const uint64_t key_, limit_;
};

class ZeroBytes final : public ByteSource {
 public:
  absl::Status Read(int64_t /*offset*/,
                    absl::Span<std::byte> to) const override {
    std::fill(to.begin(), to.end(), std::byte{0});
    return absl::OkStatus();
  }
};

}  // namespace

uint64_t RandomTensors::KeyOf(std::string_view name) const {
  return SplitMix(seed_, Fnv1a(name));
}

Tensor RandomTensors::Normal(std::string_view name, DType dtype,
                             absl::Span<const int64_t> shape,
                             double deviation) {
  auto& quantiles = quantiles_[{dtype, deviation}];
  if (quantiles == nullptr) quantiles = QuantileBytes(dtype, deviation);
  std::shared_ptr<const ByteSource> source;
  switch (SizeOf(dtype)) {
    case 2:
      source = std::make_shared<NormalBytes<2>>(KeyOf(name), quantiles);
      break;
    case 4:
      source = std::make_shared<NormalBytes<4>>(KeyOf(name), quantiles);
      break;
    default:
      source = std::make_shared<NormalBytes<8>>(KeyOf(name), quantiles);
  }
  return Tensor::View(dtype, shape, nullptr, std::move(source), 0);
}

Tensor RandomTensors::Uniform(std::string_view name, DType dtype,
                              absl::Span<const int64_t> shape, int64_t limit) {
  auto below = static_cast<uint64_t>(limit);
  std::shared_ptr<const ByteSource> source;
  switch (dtype) {
    case DType::kBool:
      source = std::make_shared<UniformBytes<uint8_t>>(KeyOf(name), 2);
      break;
    case DType::kI32:
      source = std::make_shared<UniformBytes<int32_t>>(KeyOf(name), below);
      break;
    default:
      source = std::make_shared<UniformBytes<int64_t>>(KeyOf(name), below);
  }
  return Tensor::View(dtype, shape, nullptr, std::move(source), 0);
}

Tensor UnstoredZeros(DType dtype, absl::Span<const int64_t> shape) {
  return Tensor::View(dtype, shape, nullptr,
                      std::make_shared<const ZeroBytes>(), 0);
}

}  // namespace asyra
