#include "executor/cuda/device/findings.h"

#include "executor/cuda/device/cuda_status.h"
#include "ir/support/status.h"

namespace asyra::cuda {

absl::StatusOr<std::unique_ptr<Findings>> Findings::Create() {
  std::unique_ptr<Findings> findings(new Findings());
  void* memory = nullptr;
  ASYRA_CUDA(cudaHostAlloc(&memory, sizeof(Finding), cudaHostAllocPortable));
  findings->shared_ = new (memory) Finding();
  return findings;
}

Findings::~Findings() {
  if (shared_ != nullptr) cudaFreeHost(shared_);
}

int Findings::Add(const std::string* label) {
  labels_.push_back(label);
  return static_cast<int>(labels_.size());
}

absl::Status Findings::Take() {
  Finding found = *shared_;
  if (found.probe == 0) return absl::OkStatus();
  *shared_ = Finding();
  const std::string& label = *labels_[found.probe - 1];
  absl::Status status =
      found.element < 0 ? absl::InternalError("its bytes have changed")
                        : absl::OutOfRangeError(fmt::format(
                              "element {} is {}", found.element, found.value));
  return label.empty() ? status : Annotate(status, label);
}

}  // namespace asyra::cuda
