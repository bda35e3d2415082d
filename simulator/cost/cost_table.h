// Measured times of ops on a machine, and interpolation between them.
// asyra-bench writes the format; schema in simulator/README.md.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/cost/cost_key.h"
#include "simulator/machine/machine.h"

namespace asyra {

// One op with its types and attributes, and its time alone.
struct Measurement {
  // The call as ParseCall reads it, over the mesh (x=ranks):
  // "all_gather(bf16[4096@x]) {dim=0, axes=x}".
  std::string call;
  int ranks = 1;
  double us = 0;
  // The clock at which it took so long; 0: GpuPower::measured_mhz.
  double mhz = 0;
};

struct Measurements {
  std::string device;     // "NVIDIA H200"
  std::string driver;     // version
  std::string libraries;  // "NCCL 2.28.9, cuBLASLt 13.1"
  std::string date;       // "2026-11-20"
  std::string method;     // "median of 5 runs"
  std::vector<Measurement> points;
};

// The text of a table; `origin` names it in errors, which name the key, and
// the call where one cannot be read.
absl::StatusOr<Measurements> ReadMeasurements(std::string_view text,
                                              std::string_view origin);

// Measurements as factors on the formulas: measured time over formula. The log
// of a use's factor is the mean of those of the measurements, weighted by 1 /
// d^4 at a distance of d doublings; far from all of them the factor is 1. So
// times are interpolated in log time over log size, and keep the steps of the
// formula (waves, protocols).
class CostTable {
 public:
  // Uses the formulas of `machine`, not its own table. Measurements of
  // collectives by copy engine, and of overlaps, are left out if the machine
  // has no copy engines. Those of overlaps count against what the others make
  // of their pieces. Errors: a call that the op's definition refuses.
  static absl::StatusOr<std::shared_ptr<const CostTable>> Calibrate(
      const Measurements& measurements, const Machine& machine);

  struct Match {
    double factor = 1;
    // Like OpCost::Source: 0 measured, 1 interpolated (inside the box of what
    // was measured, and a neighbour within two doublings), 2 extrapolated (a
    // neighbour within four), 3 none.
    int source = 3;
  };
  // Epilogues that were never measured use the measurements of plain matmuls
  // and are at best extrapolated.
  Match Find(const CostKey& key) const;

 private:
  // Errors: as Calibrate.
  absl::Status Add(const Measurement& point, const Machine& machine);
  // Among points with equal `behind`.
  Match FindSimilar(const CostKey& key) const;

  struct Point {
    CostKey key;
    double log_factor;
  };
  std::map<std::pair<std::string_view, int>, std::vector<Point>> points_;
};

}  // namespace asyra
