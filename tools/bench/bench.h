// Measures a machine: what asyra-bench does before it writes anything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/bench_report.h"
#include "tools/compile.h"

namespace asyra {

struct BenchOptions {
  CompileFlags compile;             // of each model
  std::vector<std::string> models;  // whose calls come first
  std::string device = "cuda";      // or cpu
  int ranks = 0;                    // 0: GPUs that there are, 2 on a cpu
  double seconds = 240;             // to begin new measurements in
  double timeout_s = 60;            // after which a rank is lost
  bool grid = true;                 // tools/bench/bench_grid.h
  bool pairs = false;               // tools/bench/bench_overlaps.h
  bool power = false;               // tools/bench/bench_power.h
  bool keep = false;  // what the table of compile.machine has, instead of
                      // measuring it again
};

// Errors: no such device; models that do not compile; a table to keep that was
// measured with something else, naming both; those of kernels and collectives.
absl::StatusOr<BenchResult> RunBench(const BenchOptions& options);

}  // namespace asyra
