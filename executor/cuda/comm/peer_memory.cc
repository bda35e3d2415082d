#include "executor/cuda/comm/peer_memory.h"

#include <cuda.h>

#include <cstring>

#include "executor/cuda/device/cuda_status.h"
#include "executor/cuda/device/driver_function.h"
#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

// The allocation that has `address`.
absl::StatusOr<void*> BaseOf(void* address) {
  using AddressRange = CUresult (*)(CUdeviceptr*, size_t*, CUdeviceptr);
  ASYRA_ASSIGN_OR_RETURN(void* function,
                         DriverFunction("cuMemGetAddressRange", 12000));
  if (function == nullptr) {
    return absl::FailedPreconditionError(
        "the driver has no cuMemGetAddressRange, which processes share memory "
        "with");
  }
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CUresult error = reinterpret_cast<AddressRange>(function)(
      &base, &bytes, reinterpret_cast<CUdeviceptr>(address));
  if (error == CUDA_SUCCESS) return reinterpret_cast<void*>(base);
  return absl::InternalError(
      fmt::format("cuMemGetAddressRange: error {}", static_cast<int>(error)));
}

}  // namespace

absl::StatusOr<SharedAddress> PeerMemory::Share(void* address) const {
  SharedAddress shared{.address = address};
  if (address == nullptr || InOneProcess(places_)) return shared;
  OnGpu gpu(ordinal_);
  ASYRA_ASSIGN_OR_RETURN(shared.base, BaseOf(address));
  ASYRA_CUDA(cudaIpcGetMemHandle(&shared.handle, shared.base));
  return shared;
}

absl::StatusOr<PeerAddress> PeerMemory::Open(
    int64_t rank, const SharedAddress& shared) const {
  if (shared.address == nullptr || SharesProcessWith(rank)) {
    return PeerAddress{shared.address, nullptr};
  }
  OnGpu gpu(ordinal_);
  void* base = nullptr;
  ASYRA_CUDA(cudaIpcOpenMemHandle(&base, shared.handle,
                                  cudaIpcMemLazyEnablePeerAccess));
  std::shared_ptr<void> open(base, [ordinal = ordinal_](void* at) {
    OnGpu gpu(ordinal);
    cudaIpcCloseMemHandle(at);
  });
  std::ptrdiff_t offset = static_cast<std::byte*>(shared.address) -
                          static_cast<std::byte*>(shared.base);
  return PeerAddress{static_cast<std::byte*>(base) + offset, std::move(open)};
}

absl::StatusOr<std::vector<std::vector<PeerAddress>>> PeerMemory::Exchange(
    absl::Span<const int64_t> members, absl::Span<void* const> mine) const {
  std::string told;
  for (void* address : mine) {
    ASYRA_ASSIGN_OR_RETURN(SharedAddress shared, Share(address));
    told.append(reinterpret_cast<const char*>(&shared), sizeof(shared));
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> said,
                         control_.Exchange(told));
  std::vector<std::vector<PeerAddress>> all;
  for (int64_t rank : members) {
    std::vector<PeerAddress>& theirs = all.emplace_back();
    if (said[rank].empty() || said[rank].size() % sizeof(SharedAddress) != 0) {
      return Invalid("rank {} tells {} bytes of addresses, no multiple of {}",
                     rank, said[rank].size(), sizeof(SharedAddress));
    }
    for (size_t at = 0; at < said[rank].size(); at += sizeof(SharedAddress)) {
      SharedAddress shared;
      std::memcpy(&shared, said[rank].data() + at, sizeof(shared));
      ASYRA_ASSIGN_OR_RETURN(theirs.emplace_back(), Open(rank, shared));
    }
  }
  return all;
}

}  // namespace asyra::cuda
