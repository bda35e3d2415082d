// The streams of a scheduled program. By default there is one for computation
// and one for each communicator, which is not always best:
//
// - On streams of their own, collectives of different communicators share a
//   link or the network. Sharing does not move bytes sooner: all of them end
//   late, and an op that waits for the first waits for all. Serialised, each
//   has the links to itself, in the order of issue.
// - Ops between two collectives, and so the second collective, queue behind
//   long matmuls or attention of other tiles. On a second compute stream they
//   do not.
//
// Which pays depends on costs: these are candidates of schedule.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/pass_manager.h"
#include "simulator/cost/cost_model.h"

namespace asyra {

struct StreamLayout {
  // The ops between collectives that move to a second compute stream.
  enum Side : uint8_t {
    kNothing,
    kNoMatmuls,  // chains of ops without a matmul
    kShort,      // chains of ops that take less than half of the longest
  };
  // Collectives that use the same links are on one stream.
  bool serialised = false;
  Side side = kNothing;

  bool operator==(const StreamLayout&) const = default;
};

// ", collectives serialised, short ops on a second compute stream"; empty for
// the plain layout.
std::string ToString(const StreamLayout& layout);

// Returns all layouts but the plain one.
std::vector<StreamLayout> OtherLayouts();

// Returns `program`, of stage scheduled and with the streams of
// start_collectives, on other streams in the same order. `op_costs` are the
// costs of its ops.
Program LayOut(const Program& program, const StreamLayout& layout,
               absl::Span<const OpCost> op_costs);

// The pass `lay_out_streams`, and a run of it.
absl::StatusOr<bool> LayOutStreamsPass(Program& program,
                                       const PassOptions& options,
                                       PassContext& context);
PassRun PassOf(const StreamLayout& layout);

}  // namespace asyra
