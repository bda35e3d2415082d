// Keys that walk (passes/shard/walk_keys.h) whose parts are merged one by one
// take the memory of few shards only if no more of them are fetched, computed
// with or kept than that: all could start with the first.
#pragma once

#include "ir/program.h"

namespace asyra {

// Orders attentions of a scheduled program over one shard of the same keys
// after each other: all that see a shard, each after the merge of the one
// before, and then those that see the next, which is fetched when the last but
// one is done with. Adds `after` and moves ops. Applies where each merge has
// two parts, of three shards or more. Returns whether it applied to any.
bool HoldWalks(Program& program);

}  // namespace asyra
