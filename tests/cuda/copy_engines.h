// Whether copy engines carry the collectives of a test: elsewhere they go
// through NCCL, which gives the same results.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/comm/communicator.h"
#include "executor/cuda/comm/peer_access.h"
#include "ir/copy_engine.h"
#include "ir/support/status.h"
#include "tests/executor/ranks.h"

namespace asyra {

// Counts collectives that copy engines carry, and overlaps that are one kernel.
class CountingWorld : public Communicator {
 public:
  CountingWorld(std::unique_ptr<Communicator> world, std::atomic<int>* carried)
      : world_(std::move(world)), carried_(carried) {}
  std::string_view name() const override { return world_->name(); }
  std::string_view device() const override { return world_->device(); }
  int64_t rank() const override { return world_->rank(); }
  int64_t size() const override { return world_->size(); }
  absl::StatusOr<std::vector<std::string>> Exchange(
      std::string_view mine) override {
    return world_->Exchange(mine);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareCollective(
      const CollectiveUse& use) override {
    if (AsksForCopyEngine(use.use.attrs())) {
      ASYRA_ASSIGN_OR_RETURN(std::string obstacle,
                             world_->CopyEngineObstacle(use));
      *carried_ += obstacle.empty();
    }
    return world_->PrepareCollective(use);
  }
  absl::StatusOr<std::string> CopyEngineObstacle(
      const CollectiveUse& use) override {
    return world_->CopyEngineObstacle(use);
  }
  absl::StatusOr<std::string> OneKernelObstacle(
      const CollectiveUse& use) override {
    return world_->OneKernelObstacle(use);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneKernel(
      const CollectiveUse& use) override {
    ++*carried_;
    return world_->PrepareOneKernel(use);
  }
  void BeginStep() override { world_->BeginStep(); }
  std::vector<int64_t> RanksBehind() const override {
    return world_->RanksBehind();
  }
  absl::Status Check(double waited_s) override {
    return world_->Check(waited_s);
  }
  void Drain() override { world_->Drain(); }
  void Abort(const absl::Status& cause) override { world_->Abort(cause); }

 private:
  std::unique_ptr<Communicator> world_;
  std::atomic<int>* carried_;
};

// Whether two GPUs reach each other's memory.
inline bool GpusReachEachOther() {
  std::atomic<int> reach = 0;
  std::vector<absl::Status> results =
      OnRanks(2, {}, [&](Communicator& control) -> absl::Status {
        int ordinal = static_cast<int>(control.rank());
        if (cudaSetDevice(ordinal) != cudaSuccess) {
          return absl::InternalError("cudaSetDevice");
        }
        ASYRA_ASSIGN_OR_RETURN(std::vector<RankPlace> places,
                               ExchangePlaces(control));
        cuda::PeerMemory memory(control, std::move(places), ordinal);
        ASYRA_ASSIGN_OR_RETURN(bool all,
                               cuda::ReachAllPeers(control, memory, ordinal));
        reach += all;
        return absl::OkStatus();
      });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  return reach == 2;
}

}  // namespace asyra
