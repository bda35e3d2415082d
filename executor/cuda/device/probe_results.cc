#include "executor/cuda/device/probe_results.h"

#include "executor/cuda/device/cuda_status.h"
#include "ir/support/status.h"

namespace asyra::cuda {

absl::StatusOr<std::unique_ptr<ProbeResults>> ProbeResults::Create() {
  std::unique_ptr<ProbeResults> probe_results(new ProbeResults());
  void* memory = nullptr;
  ASYRA_CUDA(
      cudaHostAlloc(&memory, sizeof(ProbeResult), cudaHostAllocPortable));
  probe_results->shared_ = new (memory) ProbeResult();
  return probe_results;
}

ProbeResults::~ProbeResults() {
  if (shared_ != nullptr) cudaFreeHost(shared_);
}

int ProbeResults::Add(const std::string* label) {
  labels_.push_back(label);
  return static_cast<int>(labels_.size());
}

absl::Status ProbeResults::Take() {
  ProbeResult found = *shared_;
  if (found.probe == 0) return absl::OkStatus();
  *shared_ = ProbeResult();
  const std::string& label = *labels_[found.probe - 1];
  absl::Status status =
      found.element < 0 ? absl::InternalError("its bytes have changed")
                        : absl::OutOfRangeError(fmt::format(
                              "element {} is {}", found.element, found.value));
  return label.empty() ? status : Annotate(status, label);
}

}  // namespace asyra::cuda
