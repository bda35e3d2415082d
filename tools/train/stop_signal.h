// Ctrl-C and SIGTERM as a wish to stop between two steps, on which the ranks
// agree.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "executor/comm/communicator.h"

namespace asyra {

// From here on the first SIGINT or SIGTERM only asks to stop; the second ends
// the process.
void CatchStopSignals();
bool StopIsAsked();

// Asks all ranks from time to time, so that all of them stop before the same
// step. One for each rank.
class StopVote {
 public:
  // `world` outlives it.
  explicit StopVote(Communicator& world) : world_(world) {}
  // Called by all ranks before each step, with the seconds that steps take; 0:
  // not known yet.
  // Errors: those of the world.
  absl::StatusOr<bool> ShallStop(int64_t step, double step_s);

 private:
  Communicator& world_;
  int64_t next_ = -1;  // step of the next vote; -1: the first one that comes
};

}  // namespace asyra
