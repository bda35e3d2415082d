// The output of `--print-plan`: how a partitioned program is sharded, and what
// its collectives move, layer by layer.
#pragma once

#include <string>

#include "ir/program.h"
#include "nlohmann/json_fwd.hpp"

namespace asyra {

// Equal consecutive layers are printed once, with their number
// (passes/analysis/repeats.h) and the names of the first. For each block: its
// inputs and outputs, its weights, and its collectives with the value they
// move, its type before and after, and the bytes that each device sends over
// the links by a ring: 2(n-1)/n of the buffer in an all_reduce over n devices,
// (n-1)/n in the others. What does not repeat in a training step is printed by
// its phases: forward, backward, update, and there weights and collectives that
// differ in the numbers of their names alone are one row: "%layer*.up".
std::string PlanText(const Program& program);

// {"blocks": [{"phase", "repeats", "ops", "in", "weights", "collectives",
// "out"}],
// "collectives": [{"op", "axes", "count", "wire_bytes"}]}: bytes are those of
// one collective in a block, of the whole program under "collectives".
nlohmann::json PlanJson(const Program& program);

}  // namespace asyra
