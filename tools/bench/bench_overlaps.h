// A collective with the matmul behind or before it, in every form that it may
// run in: what asyra-bench --pairs measures.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/bench/collective_timer.h"
#include "simulator/machine/machine.h"

namespace asyra {

// The matmul of each rank. In front of it its rows are gathered, or behind it
// they are summed and scattered.
struct OverlapShape {
  std::string name;
  bool gathers = true;
  int64_t rows = 0, inner = 0, columns = 0;
};

// All shapes of TileLink's table 4 and of an attention's last projection for so
// many GPUs, or a few small ones for a cpu.
std::vector<OverlapShape> OverlapShapes(std::string_view device, int ranks);

struct OverlapForm {
  enum Kind : uint8_t {
    kMatmul,      // alone
    kCollective,  // alone
    kSerial,      // one after the other
    kTiles,       // of the rows, as schedules cut programs
    kPlan,        // one op with a chunk plan
    kPiece,       // the matmul of a plan's piece, alone
  };
  Kind kind = kSerial;
  std::string name;  // "2 tiles, copy_engine"
  std::vector<SequenceCall> calls;
  double predicted_us = 0;  // 0: not estimated
  // The same of a plan from the times of its matmuls and collectives alone, as
  // this run measured them, not from the machine's table. 0: not estimated.
  double of_parts_us = 0;
  bool tuned = false;  // the choice of simulator/replay/plan_tuner.h
  Timing timing;       // us is 0 where ranks do not run it
};

// The collective of each form is carried by the library, and by copy engines;
// plans go in the shapes that are likely, and in the tuned one. Estimates are
// for `machine`. Errors: sizes that do not divide.
absl::StatusOr<std::vector<OverlapForm>> OverlapForms(const OverlapShape& shape,
                                                      DType dtype, int ranks,
                                                      const Machine& machine);

struct MeasuredOverlap {
  OverlapShape shape;
  std::vector<OverlapForm> forms;

  // The fastest that was measured, null if none was.
  const OverlapForm* Fastest(OverlapForm::Kind kind) const;
  // Nothing is faster: the longer of matmul and collective alone.
  double LimitUs() const;
};

// A line for each shape.
std::string OverlapsText(absl::Span<const MeasuredOverlap> overlaps);
std::string OverlapsJson(absl::Span<const MeasuredOverlap> overlaps,
                         std::string_view device, int ranks);

}  // namespace asyra
