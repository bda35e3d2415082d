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

int ProbeResults::Add(const std::string* label, Describe describe) {
  entries_.push_back({label, std::move(describe)});
  return static_cast<int>(entries_.size());
}

namespace {

absl::Status FoundByProbe(const ProbeResult& found) {
  if (found.element < 0) return absl::InternalError("its bytes have changed");
  return absl::OutOfRangeError(
      fmt::format("element {} is {}", found.element, found.value));
}

}  // namespace

absl::Status ProbeResults::Take() {
  ProbeResult found = *shared_;
  if (found.probe == 0) return absl::OkStatus();
  *shared_ = ProbeResult();
  const Entry& entry = entries_[found.probe - 1];
  if (entry.label == nullptr) return absl::OkStatus();
  absl::Status status =
      entry.describe ? entry.describe(found) : FoundByProbe(found);
  return entry.label->empty() ? status : Annotate(status, *entry.label);
}

}  // namespace asyra::cuda
