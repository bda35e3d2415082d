// Why communication is not hidden: of each collective that runs while no
// computation does, what kept computation from running beside it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/program.h"
#include "simulator/replay.h"

namespace asyra {

enum class Exposure : uint8_t {
  // Some op had all its data, but stood behind a wait on its stream, or the
  // collective itself behind computation.
  kOrder,
  // The same, and its results would not have fitted into the budget.
  kMemory,
  // Some op had all its data and was not issued yet, nor was the collective.
  kHost,
  // Nothing to run, and the collective had all its data earlier: the one before
  // it over the same axes, or on its stream, was not over.
  kCommunicator,
  // Nothing to run, and most of the collective is latency: tiles of it would
  // take as long as the whole.
  kSmall,
  // Nothing to run: all computation left depends on what is on its way.
  kDependence,
};
inline constexpr int kNumExposures = 6;
// "independent work is issued later", ...
std::string_view ToString(Exposure exposure);

struct ExposedCollective {
  int op = 0;  // index in the program
  // Its share of the time in which no computation runs; where several
  // collectives run, each has an equal one, so that these sum up to
  // SimResult::exposed_comm_us.
  double us = 0;
  std::array<double, kNumExposures> by_us = {};  // sums up to `us`

  // What keeps most of it from being hidden.
  Exposure reason() const;
};

struct ExposureOptions {
  int64_t budget_bytes = 0;  // of live bytes; 0: none
};

// Those with any exposed time, in the program's order. `result` is what
// Simulate gave for `program`. An op counts as runnable from when all that it
// depends on by its data has ended, whatever its stream does; what it depends
// on runs as it did, so this says what one move could hide, not what the best
// order hides. Linear in the ops, but for sorting.
std::vector<ExposedCollective> ExplainExposure(
    const Program& program, const SimResult& result,
    const ExposureOptions& options = {});

}  // namespace asyra
