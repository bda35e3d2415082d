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

namespace asyra {

// Waits before the kernel, on its stream.
class DelayedKernel : public Kernel {
 public:
  DelayedKernel(std::unique_ptr<Kernel> kernel, int64_t delay_us)
      : kernel_(std::move(kernel)), delay_us_(delay_us) {}
  int64_t workspace_bytes() const override {
    return kernel_->workspace_bytes();
  }
  bool is_native() const override { return kernel_->is_native(); }
  bool is_whole() const override { return kernel_->is_whole(); }
  void AddTuningResults(TuningResults* results) const override {
    kernel_->AddTuningResults(results);
  }
  absl::Status Bind(const KernelArgs& args) override {
    kernel_->set_label(label());
    return kernel_->Bind(args);
  }
  void Launch(const KernelArgs& args, Stream& stream) override {
    if (delay_us_ > 0) {
      static_cast<CpuStream&>(stream).Enqueue({.run = Sleep, .n = delay_us_});
    }
    kernel_->Launch(args, stream);
  }

 private:
  static absl::Status Sleep(void*, const void*, int64_t us) {
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    return absl::OkStatus();
  }

  std::unique_ptr<Kernel> kernel_;
  int64_t delay_us_;
};

// A cpu, every fourth of whose kernels is up to 200 us late.
class DelayedDevice : public Device {
 public:
  DelayedDevice(std::shared_ptr<Device> cpu, uint64_t seed)
      : cpu_(std::move(cpu)), random_(seed) {}
  std::string_view name() const override { return cpu_->name(); }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(
      int64_t bytes) override {
    return cpu_->Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(
      std::string_view name, StreamUse use, Failure* failure) override {
    return cpu_->CreateStream(name, use, failure);
  }
  std::unique_ptr<Event> CreateEvent(bool timed) override {
    return cpu_->CreateEvent(timed);
  }
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      absl::Span<Stream* const> streams,
      std::function<void()> enqueue) override {
    return cpu_->Record(streams, std::move(enqueue));
  }
  void CopyToDevice(void* to, const void* from, int64_t bytes,
                    Stream& stream) override {
    cpu_->CopyToDevice(to, from, bytes, stream);
  }
  void CopyToHost(void* to, const void* from, int64_t bytes,
                  Stream& stream) override {
    cpu_->CopyToHost(to, from, bytes, stream);
  }
  void Copy(void* to, const void* from, int64_t bytes,
            Stream& stream) override {
    cpu_->Copy(to, from, bytes, stream);
  }
  void Fill(void* to, uint8_t byte, int64_t bytes, Stream& stream) override {
    cpu_->Fill(to, byte, bytes, stream);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareKernel(
      const KernelUse& use) override {
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                           cpu_->PrepareKernel(use));
    return std::make_unique<DelayedKernel>(std::move(kernel), DelayUs());
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareProbe(
      const ProbeUse& use) override {
    return cpu_->PrepareProbe(use);
  }

 private:
  int64_t DelayUs() {
    std::lock_guard lock(mutex_);
    return random_() % 4 == 0 ? static_cast<int64_t>(random_() % 200) : 0;
  }

  std::shared_ptr<Device> cpu_;
  std::mutex mutex_;
  std::mt19937_64 random_;
};

class DelayedPlatform : public Platform {
 public:
  explicit DelayedPlatform(uint64_t seed) : seed_(seed) {}
  std::string_view name() const override { return cpu_->name(); }
  absl::Status CheckRanks(int64_t ranks_here) const override {
    return cpu_->CheckRanks(ranks_here);
  }
  absl::StatusOr<std::shared_ptr<Device>> MakeDevice(
      int64_t local_rank, int64_t ranks_on_host) override {
    ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                           cpu_->MakeDevice(local_rank, ranks_on_host));
    return std::make_shared<DelayedDevice>(std::move(device),
                                           seed_ + local_rank);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      Communicator& control, Device& device) override {
    return cpu_->Connect(control, device);
  }

 private:
  uint64_t seed_;
  std::unique_ptr<Platform> cpu_ = CreateCpuPlatform();
};

}  // namespace asyra
