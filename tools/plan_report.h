// What `--print-plan` prints: how a partitioned program is sharded, and what
// its collectives move, layer by layer.
#pragma once

#include <string>

#include "ir/program.h"
#include "nlohmann/json_fwd.hpp"

namespace asyra {

// Equal layers are told once, with how often they follow one another
// (passes/analysis/repeats.h); names are those of the first. Of each block: the
// values that come in and go out, its weights, and its collectives with the
// value they move, its type before and after, and the bytes that each device
// sends over the links: 2(n-1)/n of the buffer in an all_reduce over n devices,
// (n-1)/n in the others, what their rings send.
std::string PlanText(const Program& program);

// {"blocks": [{"repeats", "ops", "in", "weights", "collectives", "out"}],
// "collectives": [{"op", "axes", "count", "wire_bytes"}]}: bytes are those of
// one collective in a block, of the whole program under "collectives".
nlohmann::json PlanJson(const Program& program);

}  // namespace asyra
