// Choices that all trainers of one run must be given alike.
#pragma once

#include <vector>

#include "executor/comm/choices.h"
#include "executor/trainer.h"

namespace asyra {

// Returns the options, and properties of the folder, that decide results or
// what ranks do together, besides the programs, which executors compare. Memory
// that ranks of a host share, and profiles, are of one rank.
std::vector<NamedChoice> ChoicesOf(const TrainingPrograms& programs,
                                   const TrainerOptions& options);

}  // namespace asyra
