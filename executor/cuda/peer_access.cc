#include "executor/cuda/peer_access.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "executor/cuda/cuda_status.h"
#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

struct Place {
  char host[64] = {};
  int64_t process = 0;
  int64_t ordinal = 0;
};

Place Here(int ordinal) {
  Place place;
  gethostname(place.host, sizeof(place.host) - 1);
  place.process = getpid();
  place.ordinal = ordinal;
  return place;
}

bool IsForbidden() {
  const char* value = std::getenv("NCCL_P2P_DISABLE");
  return value != nullptr && std::strcmp(value, "0") != 0;
}

absl::StatusOr<bool> Reach(int ordinal, const Place& mine, const Place& other) {
  if (std::strcmp(mine.host, other.host) != 0 ||
      mine.process != other.process) {
    return false;
  }
  auto peer = static_cast<int>(other.ordinal);
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

absl::StatusOr<bool> ReachThem(int ordinal, const Place& mine,
                               const std::vector<std::string>& all) {
  if (IsForbidden()) return false;
  for (const std::string& bytes : all) {
    Place other;
    if (bytes.size() != sizeof(other)) {
      return Invalid("a rank tells {} bytes of its place, {} are expected",
                     bytes.size(), sizeof(other));
    }
    std::memcpy(&other, bytes.data(), sizeof(other));
    ASYRA_ASSIGN_OR_RETURN(bool reaches, Reach(ordinal, mine, other));
    if (!reaches) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<bool> ReachAllPeers(Communicator& host, int ordinal) {
  Place mine = Here(ordinal);
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<std::string> places,
      host.Exchange({reinterpret_cast<const char*>(&mine), sizeof(mine)}));
  ASYRA_ASSIGN_OR_RETURN(bool reaches, ReachThem(ordinal, mine, places));
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> said,
                         host.Exchange(reaches ? "1" : "0"));
  for (const std::string& one : said) reaches = reaches && one == "1";
  return reaches;
}

}  // namespace asyra::cuda
