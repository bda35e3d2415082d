// The run of asyra-train with data: a Trainer on each rank, from first values
// or a checkpoint to the last step.
#pragma once

#include "absl/status/status.h"
#include "executor/launched_world.h"
#include "executor/train/training_folder.h"
#include "tools/train/train_settings.h"

namespace asyra {

// Runs it on ranks that are threads, or as one of the ranks that a launcher has
// started and `launched` connects; the first rank prints. With --dry-run it
// says what the run would take. SIGINT and SIGTERM end it between two steps,
// with a checkpoint where there is a directory for it. Errors: ranks that have
// other tokens; those of the data, of the trainer and of the files. Processes
// that wait for this rank are not told of them.
absl::Status TrainOnData(const TrainSettings& settings,
                         const TrainingPrograms& programs,
                         const LaunchedWorld& launched);

}  // namespace asyra
