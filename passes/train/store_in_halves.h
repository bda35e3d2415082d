// Params that a model reads as bf16 need no copy of that type.
#pragma once

#include <string>

#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Stores params of a local program in halves (ir/halves.h): f32 params of which
// all readers are casts to bf16, and that an adamw replaces when all readers of
// the casts are done. The casts become upper_half, which is a view. An
// all_gather or a shard between a param and its casts moves bf16 instead. An
// adamw that waits for no norm of all gradients (clip 0) may come before
// readers; its param stays as it is, or the new one would have to be copied.
//
// With `params`, the names of another program of the training (HalvesText),
// stores those, in a program without updates. Error: one of them is read
// otherwise.
absl::StatusOr<bool> StoreInHalves(Program& program, const PassOptions& options,
                                   PassContext& context);

// Returns the inputs of a program that are stored in halves: "NAME;NAME".
std::string HalvesText(const Program& program);

}  // namespace asyra
