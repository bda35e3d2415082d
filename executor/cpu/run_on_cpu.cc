#include "executor/cpu/run_on_cpu.h"

#include <algorithm>
#include <mutex>
#include <thread>

#include "executor/cpu/cpu_device.h"

namespace asyra {
namespace {

class CpuPlatform : public Platform {
 public:
  explicit CpuPlatform(int64_t memory_bytes) : memory_bytes_(memory_bytes) {}

  std::string_view name() const override { return "cpu"; }
  absl::Status CheckRanks(int64_t) const override { return absl::OkStatus(); }

  // One for all ranks of the process, which share its memory.
  absl::StatusOr<std::shared_ptr<Device>> MakeDevice(
      int64_t, int64_t ranks_on_host) override {
    std::lock_guard lock(mutex_);
    if (device_ == nullptr) {
      int64_t cores = std::max(1u, std::thread::hardware_concurrency());
      device_ =
          CreateCpuDevice({.threads_per_stream = static_cast<int>(
                               std::max<int64_t>(1, cores / ranks_on_host)),
                           .memory_bytes = memory_bytes_});
    }
    return device_;
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(Communicator&,
                                                        Device&) override {
    return nullptr;
  }

 private:
  const int64_t memory_bytes_;
  std::mutex mutex_;
  std::shared_ptr<Device> device_;
};

}  // namespace

std::unique_ptr<Platform> CreateCpuPlatform(int64_t memory_bytes) {
  return std::make_unique<CpuPlatform>(memory_bytes);
}

absl::StatusOr<RunResult> RunOnCpu(const Program& program,
                                   absl::Span<const Tensor> inputs,
                                   const RunOptions& options) {
  CpuPlatform platform(0);
  return RunOnThreads(program, inputs, platform, options);
}

absl::StatusOr<RunResult> RunRankOnCpu(const Program& program,
                                       absl::Span<const Tensor> inputs,
                                       Communicator& world,
                                       const RunOptions& options) {
  CpuPlatform platform(0);
  return RunAsRank(program, inputs, platform, world, options);
}

}  // namespace asyra
