// First values of the params of a training: data of the model's files, or
// random values of the init program, which are the same on any mesh.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "executor/comm/communicator.h"
#include "executor/state_set.h"
#include "executor/train/training_folder.h"

namespace asyra {

// Sets all params of the step in `states`, which the step has joined: those of
// `random`, and those without data, from the init program. All ranks call it;
// `world` is null where the mesh is one device. Errors: data of another type or
// shape, files that cannot be read, those of running the program.
absl::Status SetFirstValues(const TrainingPrograms& programs, bool random,
                            int64_t seed, Communicator* world,
                            StateSet& states);

// Sets those of `made` in `states` to the outputs of `init` of their names. It
// runs in parts, each without a value that the others need, so that it takes
// memory for about one of the largest values, and not for all of them.
// All ranks call it.
absl::Status SetMadeValues(const Program& init,
                           const std::set<std::string>& made, int64_t seed,
                           Communicator* world, StateSet& states);

}  // namespace asyra
