// Many compilations of one model over a grid of options.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/compile.h"

namespace asyra {

struct GridAxis {
  std::string key;  // "tp", "machine", "dim.seq", "set.gpu.hbm_gbps"
  std::vector<std::string> values;
};

// Reads "tp=1,2,4"; values that have commas themselves are separated by
// semicolons, "mesh=dp=2,tp=4;tp=8". A key is the name of a flag of the
// compiler, or dim.NAME or set.KEY for what --dim and --set take; "graph" is 0
// or 1.
// Errors: no key or value, an unknown key (the known ones are listed), a key or
// a value twice.
absl::StatusOr<std::vector<GridAxis>> ParseGrid(
    const std::vector<std::string>& grid);

struct SweepPoint {
  std::vector<std::string> values;  // one per axis
  std::string error;                // why there is no result
  bool fits = false;                // in the device's memory
  bool pareto = false;  // no point that fits has less time and less memory
  int64_t devices = 0;
  double makespan_us = 0, lower_bound_us = 0, bubble = 0, exposed_comm_us = 0;
  double mfu = 0;
  int64_t peak_bytes = 0;  // of the device (MemoryReport)
  int64_t capacity_bytes = 0;
  int tiles = 0;  // of the schedule that was chosen; 0: it was given

  bool valid() const { return error.empty(); }
};

struct SweepOptions {
  int threads = 0;           // 0: one per core
  double capacity_gib = -1;  // as in ProfileOptions
  bool strict = false;       // prices that are guesses are errors
  // Told how many points are done; calls do not overlap.
  std::function<void(size_t done, size_t all)> progress;
};

// One point per combination of values, those of the last axis vary fastest.
// Points that cannot be compiled have their error; the result is the same for
// any number of threads.
// Errors: a value that its option does not take, more than 100000 points.
absl::StatusOr<std::vector<SweepPoint>> Sweep(const CompileOptions& base,
                                              const std::vector<GridAxis>& grid,
                                              const SweepOptions& options);

// An error that gives each point's reason when none is valid.
absl::Status CheckAnyValid(const std::vector<GridAxis>& grid,
                           const std::vector<SweepPoint>& points);

// The points as a table, as CSV (RFC 4180, one header line), and as JSON.
std::string SweepText(const std::vector<GridAxis>& grid,
                      const std::vector<SweepPoint>& points);
std::string SweepCsv(const std::vector<GridAxis>& grid,
                     const std::vector<SweepPoint>& points);
std::string SweepJson(const std::string& model,
                      const std::vector<GridAxis>& grid,
                      const std::vector<SweepPoint>& points);

}  // namespace asyra
