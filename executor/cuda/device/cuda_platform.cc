#include "executor/cuda/device/cuda_platform.h"

#include "executor/cuda/comm/nccl_world.h"
#include "executor/cuda/device/cuda_device.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class CudaPlatform : public Platform {
 public:
  CudaPlatform(int gpus, const CudaPlatformOptions& options)
      : gpus_(gpus), options_(options) {}

  std::string_view name() const override { return "cuda"; }

  absl::Status CheckRanks(int64_t ranks_here) const override {
    if (ranks_here <= gpus_) return absl::OkStatus();
    return absl::FailedPreconditionError(
        fmt::format("{} ranks of this host need a GPU each, {} {} visible",
                    ranks_here, gpus_, gpus_ == 1 ? "is" : "are"));
  }

  absl::StatusOr<std::shared_ptr<Device>> MakeDevice(int64_t local_rank,
                                                     int64_t) override {
    return CreateCudaDevice(
        {.ordinal = static_cast<int>(local_rank), .graphs = options_.graphs});
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      Communicator& control, Device& device) override {
    return CreateNcclWorld(control, {.ordinal = OrdinalOf(device),
                                     .timeout_s = options_.timeout_s,
                                     .chunk_plans = options_.chunk_plans});
  }

 private:
  int gpus_;
  CudaPlatformOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Platform>> CreateCudaPlatform(
    const CudaPlatformOptions& options) {
  ASYRA_ASSIGN_OR_RETURN(int gpus, CountCudaDevices());
  return std::make_unique<CudaPlatform>(gpus, options);
}

}  // namespace asyra
