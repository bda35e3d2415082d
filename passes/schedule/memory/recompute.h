// Computes parts of the forward pass of a training step again in backward
// instead of keeping them: activation checkpointing (Chen et al. 2016), of any
// set of values and not only of whole layers.
//
// It runs on the local program, where collectives are ops. So a gathered
// activation may be gathered again, as in Megatron-LM with sequence
// parallelism, and a gathered parameter, as in FSDP. Which values those are is
// chosen by recompute_search.h.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/schedule/memory/stash.h"

namespace asyra {

// Returns a program in which the results of `dropped` (ops that stash.IsKept)
// are no longer read after forward: before the first reader there, a copy of
// the op, named "X.again", makes them from what is kept. What it reads that is
// not kept is computed again as well, back to inputs, kept values and those
// between layers. One of `dropped` that reads inputs only, such as a parameter
// in the model's type, is made right before its first reader in forward.
//
// The copies are the same ops on the same operands: results stay equal bit for
// bit.
absl::StatusOr<Program> RecomputeOps(const Program& program, const Stash& stash,
                                     const std::set<int>& dropped);

// Returns whether the op is such a copy, by its name; in any later stage.
bool IsComputedAgain(const Program& program, const Op& op);

// Returns the ops of the classes of these names.
std::set<int> OpsOfClasses(const Stash& stash,
                           const std::vector<std::string>& names);

// Returns the names in the text (name_list.h), or those of all classes for
// "all".
// Errors: a name that no class has, with the largest that there are.
absl::StatusOr<std::vector<std::string>> ReadStashNames(const std::string& text,
                                                        const Stash& stash);

// The pass. Option: values, as ReadStashNames has it.
absl::StatusOr<bool> Recompute(Program& program, const PassOptions& options,
                               PassContext& context);

}  // namespace asyra
