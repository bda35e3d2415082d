// Ranks that are threads, whose kernels begin late at random: what the order of
// a program does not forbid happens sooner or later. Under ThreadSanitizer a
// missing order is a data race on the arena.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "executor/cpu/cpu_stream.h"
#include "executor/cpu/run_on_cpu.h"
#include "executor/device.h"
#include "ir/support/status.h"
#include "tests/support/forwarding.h"

namespace asyra {

// Waits before the kernel, on its stream.
class DelayedKernel : public ForwardingKernel {
 public:
  DelayedKernel(std::unique_ptr<Kernel> kernel, int64_t delay_us)
      : ForwardingKernel(std::move(kernel)), delay_us_(delay_us) {}
  void Launch(const KernelArgs& args, Stream& stream) override {
    if (delay_us_ > 0) {
      static_cast<CpuStream&>(stream).Enqueue({.run = Sleep, .n = delay_us_});
    }
    ForwardingKernel::Launch(args, stream);
  }

 private:
  static absl::Status Sleep(void*, const void*, int64_t us) {
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    return absl::OkStatus();
  }

  int64_t delay_us_;
};

// A cpu, every fourth of whose kernels is up to 200 us late.
class DelayedDevice : public ForwardingDevice {
 public:
  DelayedDevice(std::shared_ptr<Device> cpu, uint64_t seed)
      : ForwardingDevice(std::move(cpu)), random_(seed) {}
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareKernel(
      const KernelUse& use) override {
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                           ForwardingDevice::PrepareKernel(use));
    return std::make_unique<DelayedKernel>(std::move(kernel), DelayUs());
  }

 private:
  int64_t DelayUs() {
    std::lock_guard lock(mutex_);
    return random_() % 4 == 0 ? static_cast<int64_t>(random_() % 200) : 0;
  }

  std::mutex mutex_;
  std::mt19937_64 random_;
};

class DelayedPlatform : public ForwardingPlatform {
 public:
  explicit DelayedPlatform(uint64_t seed)
      : ForwardingPlatform(CreateCpuPlatform()), seed_(seed) {}
  absl::StatusOr<std::shared_ptr<Device>> MakeDevice(
      int64_t local_rank, int64_t ranks_on_host) override {
    ASYRA_ASSIGN_OR_RETURN(
        std::shared_ptr<Device> device,
        ForwardingPlatform::MakeDevice(local_rank, ranks_on_host));
    return std::make_shared<DelayedDevice>(std::move(device),
                                           seed_ + local_rank);
  }

 private:
  uint64_t seed_;
};

}  // namespace asyra
