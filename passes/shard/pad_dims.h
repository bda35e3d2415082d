// Pads dimensions of weights that the mesh does not divide, where that makes
// the step shorter: a vocabulary of 50257 over 4 devices becomes one of 50260,
// and of 50272 in 16 bits, so that rows of a device's logits begin at multiples
// of 16 bytes. On one device it becomes 50264, for the same reason.
//
//   program @f(%x: f32[8, 16], %w: f32[16, 10] weight) -> (f32[8, 10]) {
//     %y = matmul(%x, %w) : f32[8, 10]
// over tp=4 becomes
//   program @f(%x: f32[8, 16], %w: f32[16, 12] weight padded from [16, 10])
//     %y.padded = matmul(%x, %w) : f32[8, 12]
//     %y = slice(%y.padded) {dim=1, start=0, stop=10} : f32[8, 10]
//
// Nothing is copied: zeros are added to each shard when a weight is loaded
// (Input::stored). Where padding goes says pad_dimensions.h.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/shard/sharding_plan.h"

namespace asyra {

struct PadOptions {
  PlanOptions plan;       // without pins, which are those of ...
  std::string_view pins;  // ... this text (ReadPins)
  bool always = false;    // even where it costs more
  bool trained = false;   // as PadDimensions has it
  // The padding of another program of the model, as PaddedSizes says it,
  // instead of a decision; empty: none.
  std::string_view sizes;
};

// Pads every size of weights that the model axes of the mesh do not divide, or
// whose parts are odd and 16-bit: plans and partitions with and without
// padding, and keeps the faster program, by the sum of its ops' costs. A remark
// states the decision with both times. Needs costs, unless `always` or with
// `sizes`. Errors: sizes that are no such text.
absl::StatusOr<bool> PadDims(Program& program, const PadOptions& options,
                             PassContext& context);

}  // namespace asyra
