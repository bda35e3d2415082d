// Params that a model reads as bf16 need no copy of that type.
#pragma once

#include <string>

#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Of a local program: f32 params of which all readers are casts to bf16, and an
// adamw that replaces the param when all that read the casts is done, are
// stored in halves (ir/halves.h). The casts become upper_half, which is a view.
// An all_gather or a shard between a param and its casts moves bf16 instead.
// An adamw that waits for no norm of all gradients (clip 0) may come before
// readers; its param stays as it is, or the new one would have to be copied.
//
// With `params`, the names of another program of the training (HalvesText):
// those, in a program without updates. Error: one of them is read otherwise.
absl::StatusOr<bool> StoreInHalves(Program& program, const PassOptions& options,
                                   PassContext& context);

// The inputs of a program that are stored in halves: "NAME;NAME".
std::string HalvesText(const Program& program);

}  // namespace asyra
