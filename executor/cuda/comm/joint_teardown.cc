#include "executor/cuda/comm/joint_teardown.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

struct Place {
  char host[64] = {};
  int64_t process = 0;
  std::shared_ptr<JointTeardown>* shared = nullptr;  // of rank 0
};

}  // namespace

absl::StatusOr<std::shared_ptr<JointTeardown>> JointTeardown::Join(
    Communicator& control) {
  Place mine;
  gethostname(mine.host, sizeof(mine.host) - 1);
  mine.process = getpid();
  if (control.rank() == 0) {
    mine.shared = new std::shared_ptr<JointTeardown>(
        std::make_shared<JointTeardown>(control.size()));
  }
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<std::string> places,
      control.Exchange({reinterpret_cast<const char*>(&mine), sizeof(mine)}));
  bool one_process = true;
  Place first;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    Place place;
    if (places[rank].size() != sizeof(place)) {
      return Invalid("rank {} tells {} bytes of its place, {} are expected",
                     rank, places[rank].size(), sizeof(place));
    }
    std::memcpy(&place, places[rank].data(), sizeof(place));
    if (rank == 0) first = place;
    one_process = one_process && place.process == first.process &&
                  std::strcmp(place.host, first.host) == 0;
  }
  std::shared_ptr<JointTeardown> shared;
  if (one_process) shared = *first.shared;
  // All ranks have copied it. After an error that is unknown, and it is kept.
  ASYRA_RETURN_IF_ERROR(control.Exchange("").status());
  delete mine.shared;
  return shared;
}

bool JointTeardown::Wait(const std::atomic<int64_t>& come,
                         double timeout_s) const {
  using Clock = std::chrono::steady_clock;
  auto end = Clock::now() + std::chrono::duration<double>(timeout_s);
  while (come.load() < ranks_) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace asyra::cuda
