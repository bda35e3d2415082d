#include "executor/train/trainer_choices.h"

#include <string>

namespace asyra {
namespace {

std::string Text(bool value) { return value ? "true" : "false"; }

}  // namespace

std::vector<NamedChoice> ChoicesOf(const TrainingPrograms& programs,
                                   const TrainerOptions& options) {
  const TrainingInfo& info = programs.info;
  return {{"resume_from", options.resume_from},
          {"seed", std::to_string(options.seed)},
          {"random_weights", Text(options.random_weights)},
          {"not_finite",
           options.not_finite == NotFinite::kSkip ? "kSkip" : "kStop"},
          {"check_finite", Text(options.check_finite)},
          {"evaluates", Text(options.evaluates)},
          {"checkpoints.keep", std::to_string(options.checkpoints.keep)},
          {"checkpoints.max_file_bytes",
           std::to_string(options.checkpoints.max_file_bytes)},
          {"a program that accumulates",
           programs.accumulate.has_value() ? "there" : "not there"},
          {"the number of batches of a step", std::to_string(info.batches)},
          {"the hash of the model", info.program_hash}};
}

}  // namespace asyra
