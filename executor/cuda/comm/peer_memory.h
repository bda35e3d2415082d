// Addresses in the memory of other ranks' GPUs. The memory of ranks that are
// threads of this process is reached as it is; that of other processes of the
// host is opened through CUDA's IPC handles.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/comm/communicator.h"
#include "executor/comm/rank_places.h"

namespace asyra::cuda {

// Description of an address in the memory of a rank's GPU, which other ranks
// receive byte by byte.
struct SharedAddress {
  void* address = nullptr;
  // Start and handle of the allocation that has it, for other processes.
  void* base = nullptr;
  cudaIpcMemHandle_t handle = {};
};

// Address of another rank's memory in this process. The memory of another
// process stays open as long as `open` is kept; the driver frees what its owner
// has freed only once it is closed everywhere.
struct PeerAddress {
  void* address = nullptr;
  std::shared_ptr<void> open;
};

// Shares addresses of a rank, whose GPU is `ordinal`, and opens those of
// others.
class PeerMemory {
 public:
  // `places` of all ranks, by rank. `control` outlives it.
  PeerMemory(Communicator& control, std::vector<RankPlace> places, int ordinal)
      : control_(control), places_(std::move(places)), ordinal_(ordinal) {}

  const std::vector<RankPlace>& places() const { return places_; }
  bool SharesProcessWith(int64_t rank) const {
    return places_[rank] == places_[control_.rank()];
  }
  bool SharesHostWith(int64_t rank) const {
    return places_[rank].host == places_[control_.rank()].host;
  }

  // Returns what the others need to reach `address`, which may be null.
  // Error: other processes cannot open it, as it is not of cudaMalloc.
  absl::StatusOr<SharedAddress> Share(void* address) const;
  // Opens an address of another rank of this host. Error: it cannot be opened.
  absl::StatusOr<PeerAddress> Open(int64_t rank,
                                   const SharedAddress& shared) const;

  // Tells the ranks `members` the addresses `mine` and gets theirs: for each
  // member, in its order, those of the member. All ranks of the world call it.
  // Errors: those of Share, Open and the exchange.
  absl::StatusOr<std::vector<std::vector<PeerAddress>>> Exchange(
      absl::Span<const int64_t> members, absl::Span<void* const> mine) const;

 private:
  Communicator& control_;
  const std::vector<RankPlace> places_;
  const int ordinal_;
};

}  // namespace asyra::cuda
