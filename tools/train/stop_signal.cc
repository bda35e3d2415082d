#include "tools/train/stop_signal.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <string>

#include "ir/support/status.h"

namespace asyra {
namespace {

// A vote takes some 100 us between processes.
constexpr double kBetweenVotesS = 0.2;
constexpr double kMostBetweenVotes = 1000;  // steps

std::atomic<bool> asked = false;

void Ask(int signal) {
  asked.store(true);
  std::signal(signal, SIG_DFL);
}

}  // namespace

void CatchStopSignals() {
  std::signal(SIGINT, Ask);
  std::signal(SIGTERM, Ask);
}

bool StopIsAsked() { return asked.load(); }

absl::StatusOr<bool> StopVote::ShallStop(int64_t step, double step_s) {
  if (step < next_) return false;
  // The first rank decides when the next vote is: its clock is as good as any.
  int64_t steps = 1;
  if (step_s > 0) {
    steps = static_cast<int64_t>(
        std::clamp(kBetweenVotesS / step_s, 1.0, kMostBetweenVotes));
  }
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<std::string> votes,
      world_.Exchange(fmt::format("{} {}", StopIsAsked() ? 1 : 0, steps)));
  next_ = step + std::stoll(votes[0].substr(2));
  return std::any_of(votes.begin(), votes.end(),
                     [](const std::string& vote) { return vote[0] == '1'; });
}

}  // namespace asyra
