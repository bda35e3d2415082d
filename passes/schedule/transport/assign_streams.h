// Moves ops to a second compute stream and chooses what carries collectives.
//
// A program has one compute stream and one for each communicator. Two kinds of
// change are made, each only if the simulated step becomes shorter by more than
// kLeastGain of it, also under cost noise of 10 % (cost_noise.h), and its peak
// memory does not grow:
//
// - Ops between two collectives without a matmul among them (such as a norm
//   between a reduce_scatter and an all_gather) move to a second compute
//   stream, with the wait before them. On the first stream they, and so the
//   second collective, would queue behind matmuls of other tiles.
// - Each collective holds the SMs of its CTAs. Few of them leave more to
//   computation, many move bytes faster, and copy engines hold none: some
//   numbers of CTAs (attribute `ctas`), and then copy engines (`transport`),
//   are tried for all collectives of equal kind, axes and size.
//
// Copy engines are first decided on before the order is searched, by the time
// that each collective takes alone (use_copy_engines.h). Here the same is
// decided again for those that the library still carries, by the simulated step
// in the order that was found; copy engines and CTAs that are set stay.
//
// Equal groups are changed together, in all layers at once.
#pragma once

#include "passes/pass.h"

namespace asyra {

inline constexpr double kLeastGain = 1e-3;

// Scheduled to scheduled; context.costs must be there. Orders between the
// streams are made by `after` on those that read across them.
absl::StatusOr<bool> AssignStreams(Program& program, const PassOptions& options,
                                   PassContext& context);

}  // namespace asyra
