// What trainers of one run must be told alike.
#pragma once

#include <vector>

#include "executor/comm/choices.h"
#include "executor/trainer.h"

namespace asyra {

// What of the options and the folder decides results, or what ranks do
// together, beside the programs, which executors compare. Memory that ranks of
// a host share, and profiles, are of one rank.
std::vector<NamedChoice> ChoicesOf(const TrainingPrograms& programs,
                                   const TrainerOptions& options);

}  // namespace asyra
