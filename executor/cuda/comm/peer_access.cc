#include "executor/cuda/comm/peer_access.h"

#include <cstdlib>
#include <cstring>

#include "executor/cuda/device/cuda_status.h"
#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

bool IsForbidden() {
  const char* value = std::getenv("NCCL_P2P_DISABLE");
  return value != nullptr && std::strcmp(value, "0") != 0;
}

absl::StatusOr<bool> Reach(int ordinal, int peer) {
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

absl::StatusOr<bool> ReachThem(int ordinal,
                               const std::vector<std::string>& ordinals) {
  if (IsForbidden()) return false;
  for (const std::string& bytes : ordinals) {
    int peer = 0;
    if (bytes.size() != sizeof(peer)) {
      return Invalid("a rank tells {} bytes of its GPU, {} are expected",
                     bytes.size(), sizeof(peer));
    }
    std::memcpy(&peer, bytes.data(), sizeof(peer));
    ASYRA_ASSIGN_OR_RETURN(bool reaches, Reach(ordinal, peer));
    if (!reaches) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<bool> ReachAllPeers(Communicator& control, int ordinal) {
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<std::string> ordinals,
      control.Exchange(
          {reinterpret_cast<const char*>(&ordinal), sizeof(ordinal)}));
  ASYRA_ASSIGN_OR_RETURN(bool reaches, ReachThem(ordinal, ordinals));
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> said,
                         control.Exchange(reaches ? "1" : "0"));
  for (const std::string& one : said) reaches = reaches && one == "1";
  return reaches;
}

}  // namespace asyra::cuda
