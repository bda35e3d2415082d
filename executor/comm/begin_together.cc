#include "executor/comm/begin_together.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "ir/support/status.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;
// Longer than a rank needs to learn that all have arrived.
constexpr Clock::duration kMargin = std::chrono::microseconds(100);

}  // namespace

absl::Status BeginTogether(Communicator& world) {
  Clock::time_point now = Clock::now(), last = now;
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<std::string> said,
      world.Exchange({reinterpret_cast<const char*>(&now), sizeof(now)}));
  for (const std::string& one : said) {
    Clock::time_point theirs;
    if (one.size() != sizeof(theirs)) {
      return Invalid("a rank tells {} bytes of a time, {} are expected",
                     one.size(), sizeof(theirs));
    }
    std::memcpy(&theirs, one.data(), sizeof(theirs));
    last = std::max(last, theirs);
  }
  // More than the margin is left only where the clock is of another host.
  Clock::duration left = kMargin;
  while (left > Clock::duration::zero() && left <= kMargin) {
    left = last + kMargin - Clock::now();
  }
  return absl::OkStatus();
}

}  // namespace asyra
