// Why communication is not hidden: for each collective that runs while no
// computation does, the reason.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/program.h"
#include "simulator/replay/replay.h"

namespace asyra {

enum class Exposure : uint8_t {
  // Some op had all its data but was queued behind a wait on its stream, or the
  // collective itself was queued behind computation.
  kOrder,
  // The same, but its results would not have fitted into the budget.
  kMemory,
  // Some op had all its data but the host had not issued it, or not the
  // collective.
  kHost,
  // Nothing to run, and the collective had its data earlier but waited for the
  // previous one over the same axes or on its stream.
  kCommunicator,
  // Nothing to run, and most of the collective is latency: tiles of it would
  // take as long as the whole.
  kSmall,
  // Nothing to run: all remaining computation depends on the data in flight.
  kDependence,
};
inline constexpr int kNumExposures = 6;
// "independent work is issued later", ...
std::string_view ToString(Exposure exposure);

struct ExposedCollective {
  int op = 0;  // index in the program
  // The share of the time in which no computation runs; where several
  // collectives run, each has an equal one, so that these sum up to
  // SimResult::exposed_comm_us.
  double us = 0;
  std::array<double, kNumExposures> by_us = {};  // sums up to `us`

  // The reason for most of it.
  Exposure reason() const;
};

struct ExposureOptions {
  int64_t budget_bytes = 0;  // of live bytes; 0: none
};

// Collectives with exposed time, in the program's order. `result` is that of
// Simulate for `program`. An op counts as runnable once its data dependences
// have ended, independent of its stream. Their times are not changed, so this
// says what one move could hide, not what the best order hides. Linear in the
// ops, except for sorting.
std::vector<ExposedCollective> ExplainExposure(
    const Program& program, const SimResult& result,
    const ExposureOptions& options = {});

}  // namespace asyra
