// Which stream runs what, and how much of the device a collective may take.
//
// A program comes with one compute stream and one for each communicator. Two
// things are changed, and only where the simulated step gets shorter by more
// than kLeastGain of it, at these costs and under cost noise of 10 %
// (cost_noise.h), and its peak memory does not grow:
//
// - What is between two collectives with no matmul among it (a norm
//   between a reduce_scatter and an all_gather, say) goes to a second compute
//   stream, with the wait that it begins with: on the first one it would queue
//   behind matmuls of other tiles, and the second collective with it.
// - Each collective holds the SMs of its CTAs. Few of them
//   leave more to computation, many move bytes faster; a small number of
//   counts is tried for all collectives of equal kind, axes and size (attribute
//   `ctas`).
//
// Equal groups are changed together: layers repeat, and so does what pays.
#pragma once

#include "passes/pass.h"

namespace asyra {

inline constexpr double kLeastGain = 1e-3;

// Scheduled to scheduled; context.costs must be there. Orders between the
// streams are made by `after` on those that read across them.
absl::StatusOr<bool> AssignStreams(Program& program, const PassOptions& options,
                                   PassContext& context);

}  // namespace asyra
