// A program beside a training step, whose params and states it shares: pins
// that shard them alike, and the check that they came out alike.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "ir/program.h"

namespace asyra {

// Pins (passes/shard/pins.h) of the step's weights and states that are inputs
// of `other`, whose stage is global, over the mesh before its axes were split.
std::string PinsLike(const Program& step, const Program& other);

// The same of those for which `is_pinned` is true.
std::string PinsWhere(
    const Program& step,
    const std::function<bool(const Input& input, const std::string& name)>&
        is_pinned);

// Returns whether a state is sharded by one part of a split axis alone: pins
// over the mesh before cannot say it.
bool ShardsByParts(const Program& step);

// Error: a state that `other` updates has another type in the step. It would
// else be found when one reads what the other has written; here it has a name.
absl::Status CheckAgree(const Program& step, const Program& other);

// Bytes on a device of the step's states that are no inputs of `other`.
int64_t BytesOfOthers(const Program& step, const Program& other);

}  // namespace asyra
