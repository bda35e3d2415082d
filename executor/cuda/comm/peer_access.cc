#include "executor/cuda/comm/peer_access.h"

#include <cstdlib>
#include <cstring>

#include "absl/algorithm/container.h"
#include "executor/cuda/device/cuda_status.h"
#include "executor/cuda/device/scratch.h"
#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

bool IsForbidden() {
  const char* value = std::getenv("NCCL_P2P_DISABLE");
  return value != nullptr && std::strcmp(value, "0") != 0;
}

// Data of a rank's GPU that others receive.
struct Probe {
  int ordinal = 0;
  bool is_shared = false;   // whether `rank_cell` was exported
  SharedAddress rank_cell;  // memory that has the rank's number
};

absl::StatusOr<bool> EnableAccess(int ordinal, int peer) {
  if (peer == ordinal) return true;
  int can = 0;
  ASYRA_CUDA(cudaDeviceCanAccessPeer(&can, ordinal, peer));
  if (can == 0) return false;
  cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();  // it is no error here
    return true;
  }
  ASYRA_RETURN_IF_ERROR(ToStatus(error, "cudaDeviceEnablePeerAccess"));
  return true;
}

// Returns whether the memory of another process has what its rank wrote there.
// Memory that cannot be opened or read is no error here.
bool ReadsRankCell(const PeerMemory& memory, int64_t rank, const Probe& probe) {
  if (!probe.is_shared) return false;
  absl::StatusOr<PeerAddress> cell = memory.Open(rank, probe.rank_cell);
  int64_t found = -1;
  bool reads = cell.ok() && cudaMemcpy(&found, cell->address, sizeof(found),
                                       cudaMemcpyDeviceToHost) == cudaSuccess;
  cudaGetLastError();
  return reads && found == rank;
}

absl::StatusOr<bool> ReachThem(int64_t self, const PeerMemory& memory,
                               int ordinal,
                               const std::vector<std::string>& said) {
  if (IsForbidden()) return false;
  for (size_t rank = 0; rank < said.size(); ++rank) {
    Probe probe;
    if (said[rank].size() != sizeof(probe)) {
      return Invalid("rank {} tells {} bytes of its GPU, {} are expected", rank,
                     said[rank].size(), sizeof(probe));
    }
    std::memcpy(static_cast<void*>(&probe), said[rank].data(), sizeof(probe));
    auto peer = static_cast<int64_t>(rank);
    if (peer == self || !memory.SharesHostWith(peer)) continue;
    bool reaches = false;
    if (memory.SharesProcessWith(peer)) {
      ASYRA_ASSIGN_OR_RETURN(reaches, EnableAccess(ordinal, probe.ordinal));
    } else {
      reaches = ReadsRankCell(memory, peer, probe);
    }
    if (!reaches) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<bool> ReachAllPeers(Communicator& control,
                                   const PeerMemory& memory, int ordinal) {
  int64_t self = control.rank();
  Scratch cell;
  ASYRA_RETURN_IF_ERROR(cell.Allocate(sizeof(self)));
  ASYRA_CUDA(
      cudaMemcpy(cell.data(), &self, sizeof(self), cudaMemcpyHostToDevice));
  Probe probe{.ordinal = ordinal};
  absl::StatusOr<SharedAddress> shared = memory.Share(cell.data());
  probe.is_shared = shared.ok();
  if (shared.ok()) probe.rank_cell = *shared;
  cudaGetLastError();  // of memory that cannot be exported
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<std::string> said,
      control.Exchange({reinterpret_cast<const char*>(&probe), sizeof(probe)}));
  ASYRA_ASSIGN_OR_RETURN(bool reaches, ReachThem(self, memory, ordinal, said));
  // All have closed the cell when it is freed.
  ASYRA_ASSIGN_OR_RETURN(said, control.Exchange(reaches ? "1" : "0"));
  return absl::c_all_of(said,
                        [](const std::string& one) { return one == "1"; });
}

}  // namespace asyra::cuda
