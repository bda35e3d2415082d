// Many compilations of one model over a grid of options.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/report/step_shape.h"
#include "tools/compile.h"
#include "tools/what_if/sweep_grid.h"

namespace asyra {

struct SweepPoint {
  std::vector<std::string> values;  // one per axis
  std::string error;                // why there is no result
  bool fits = false;                // in the device's memory
  // No point of its kind that fits has less time and less memory; times that
  // tie are equal (IsTie). Points of its kind have the same machine, --dim and
  // --expert-capacity.
  bool pareto = false;
  // Among points of the same --dim and --expert-capacity that fit: one more
  // than the number of faster ones, and whether another point ties with it
  // (IsTie). 0: it does not fit.
  int rank = 0;
  bool tie = false;
  double noise = 0;  // CompiledModel
  // The largest share of a device's operations that all devices of an axis
  // compute redundantly, and which ops these are (Redundancy).
  double redundant = 0;
  std::string redundant_axis, redundant_ops;
  // The first remark on an axis that does not divide an op as it should.
  std::string undivided;
  int64_t devices = 0;
  StepShape step;
  double makespan_us = 0, lower_bound_us = 0, bubble = 0, exposed_comm_us = 0;
  double mfu = 0;  // of a training step TrainingMfu
  bool training = false;
  // No schedule was searched (--estimate): makespan_us is the unscheduled step,
  // and `pareto` and `rank` are not set where other points were searched.
  bool estimated = false;
  double formula = 0;      // share of the makespan with costs by formula
  int64_t peak_bytes = 0;  // of the device (MemoryReport)
  int64_t capacity_bytes = 0;
  int tiles = 0;  // of the schedule that was chosen; 0: not scheduled here
  // Values of the point whose search found that schedule, empty if it was this
  // point's own search. Values of set.KEY are empty if it was found for the
  // machine without --set.
  std::vector<std::string> found_for;
  bool found_unchanged = false;

  bool valid() const { return error.empty(); }
};

struct SweepOptions {
  int threads = 0;      // 0: one per core
  bool strict = false;  // costs neither measured nor interpolated are errors
  // Points are estimated (passes/search/estimate_step.h), and schedules are
  // searched for so many of each kind that promise most; 0: for all.
  int search_best = 0;
  // Called as points finish, and once before; calls do not overlap.
  std::function<void(size_t done, size_t all)> progress;
  // Called with each finished point of the grid, in any order, before its marks
  // (pareto, rank, tie) are known and before it tries schedules of others.
  std::function<void(const SweepPoint& point)> finished;
};

struct SweepResult {
  std::vector<SweepPoint> points;
  size_t skipped = 0;  // combinations of other than --ranks devices
  std::vector<std::string> lacking_weights;  // LoadedModel, of any point
};

// One point per combination of values, those of the last axis vary fastest.
// Points that differ in the machine alone (machine, nodes, set.KEY) try each
// other's schedules, and those of their machines without --set, and keep the
// fastest.
// Points that cannot be compiled have their error; the result is the same for
// any number of threads.
// Errors: a value that its option does not take, more than 100000 points, none
// of as many devices as --ranks says.
absl::StatusOr<SweepResult> Sweep(const CompileFlags& base,
                                  const std::vector<GridAxis>& grid,
                                  const SweepOptions& options);

// An error that gives each point's reason when none is valid.
absl::Status CheckAnyValid(const std::vector<GridAxis>& grid,
                           const std::vector<SweepPoint>& points);

// The points as a table, as CSV (RFC 4180, one header line; `skipped` is the
// same in all), and as JSON.
std::string SweepText(const std::vector<GridAxis>& grid,
                      const SweepResult& result);
std::string SweepCsv(const std::vector<GridAxis>& grid,
                     const SweepResult& result);
// The header line, and the row of a point alone; a row that is not `marked`
// leaves empty what is known once all points are.
std::string SweepCsvHead(const std::vector<GridAxis>& grid);
std::string SweepCsvRow(const std::vector<GridAxis>& grid,
                        const SweepPoint& point, size_t skipped, bool marked);
std::string SweepJson(const std::string& model,
                      const std::vector<GridAxis>& grid,
                      const SweepResult& result);

}  // namespace asyra
