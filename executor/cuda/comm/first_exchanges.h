// The exchanges of a plan, run once before the first step: NCCL connects when
// two ranks first need it, which is not possible during graph capture.
#pragma once

#include <memory>
#include <vector>

#include "executor/comm/plan_link.h"
#include "executor/cuda/device/cuda_stream.h"
#include "executor/cuda/device/scratch.h"
#include "executor/failure.h"

namespace asyra::cuda {

class FirstExchanges {
 public:
  // Their sizes are the plan's, their contents are not. `comm` connects the
  // members in their order. Error: no memory for the largest message, twice.
  static absl::StatusOr<std::shared_ptr<FirstExchanges>> Create(
      const PlanUse& use, ncclComm_t comm, int ordinal);

  // Enqueues all of them; other ranks of the group do so too.
  absl::Status Launch();
  CudaStream& stream() { return *stream_; }
  // Returns the first error of the stream.
  absl::Status status() const { return failure_.status(); }

 private:
  explicit FirstExchanges(ncclComm_t comm) : comm_(comm) {}

  ncclComm_t comm_;
  std::vector<ExchangeCall> calls_;
  Scratch sent_, received_;
  Failure failure_;
  std::unique_ptr<CudaStream> stream_;
};

}  // namespace asyra::cuda
