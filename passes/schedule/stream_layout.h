// On which streams a scheduled program runs. It comes with one for computation
// and one for each communicator, which is not always best:
//
// - A stream of its own lets collectives of other communicators share a link
//   or the network with it. Sharing moves no byte sooner; all that were begun
//   end late, and what waits for the first of them waits for all. Serialised,
//   each has the links to itself, in the order of issue.
// - What is between two collectives queues behind long matmuls or
//   attention of other tiles, and the second collective with it. On a second
//   compute stream it does not.
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
#include "simulator/cost_model.h"

namespace asyra {

struct StreamLayout {
  // What goes to a second compute stream, of the ops between collectives.
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

// All but the plain one.
std::vector<StreamLayout> OtherLayouts();

// `program`, of stage scheduled and with the streams that start_collectives
// gives, laid out anew; its order stays. `op_costs` are its ops'.
Program LayOut(const Program& program, const StreamLayout& layout,
               absl::Span<const OpCost> op_costs);

// The pass `lay_out_streams`, and a run of it.
absl::StatusOr<bool> LayOutStreamsPass(Program& program,
                                       const PassOptions& options,
                                       PassContext& context);
PassRun PassOf(const StreamLayout& layout);

}  // namespace asyra
