#include "executor/cpu/probes.h"

#include <cmath>
#include <cstring>

#include "executor/cpu/cpu_kernel.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// A NaN of every float type, and no small integer.
constexpr int kPoisonByte = 0xff;

// FNV-1a (Fowler, Noll and Vo) over words, and over the bytes that are left.
uint64_t Checksum(const std::byte* data, int64_t bytes) {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t sum = 0xcbf29ce484222325;
  int64_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, 8);
    sum = (sum ^ word) * kPrime;
    sum ^= sum >> 29;  // high bits reach the low ones
  }
  for (; at < bytes; ++at) {
    sum = (sum ^ std::to_integer<uint64_t>(data[at])) * kPrime;
  }
  return sum;
}

class CpuProbe : public CpuKernel {
 public:
  explicit CpuProbe(const ProbeUse& use) : use_(use) {}

  absl::Status Run(const KernelArgs& args) override {
    auto* data = static_cast<std::byte*>(args.operands[0]);
    int64_t bytes = use_.local.bytes();
    switch (use_.probe) {
      case Probe::kFinite:
        return CheckFinite(data);
      case Probe::kPoison:
        std::memset(data, kPoisonByte, bytes);
        return absl::OkStatus();
      case Probe::kSeal:
        *use_.cell = Checksum(data, bytes);
        return absl::OkStatus();
      case Probe::kVerify:
        if (Checksum(data, bytes) == *use_.cell) return absl::OkStatus();
        return absl::InternalError("its bytes have changed");
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckFinite(const std::byte* data) const {
    const Type& type = use_.local;
    if (!IsFloat(type.dtype)) return absl::OkStatus();
    Tensor values = Tensor::View(type.dtype, type.shape(), data, nullptr);
    for (int64_t i = 0; i < type.num_elements(); ++i) {
      double value = values.Get(i);
      if (std::isfinite(value)) continue;
      return absl::OutOfRangeError(fmt::format("element {} is {}", i, value));
    }
    return absl::OkStatus();
  }

  ProbeUse use_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareCpuProbe(const ProbeUse& use) {
  return std::make_unique<CpuProbe>(use);
}

}  // namespace asyra
