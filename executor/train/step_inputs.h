// Inputs that the programs of a training take at each step.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/executor.h"
#include "executor/train/training_folder.h"
#include "ir/program.h"
#include "ir/tensor.h"

namespace asyra {

bool HasInput(const Program& program, std::string_view name);

// Returns a batch: the data inputs but the rate, a rank's parts, in their
// order.
std::vector<Executor::NamedInput> BatchInputsOf(const Program& program);

// Returns the states in which the step finds the sums of gradients; none where
// it has one batch.
std::vector<std::string> GradientSumsOf(const Program& step);

// Errors name the program: a step without rate, loss or norm; an accumulate
// program that takes other batches, or for whose sums the step has no state.
absl::Status CheckTraining(const TrainingPrograms& programs);

// Error: it is negative, or not finite in the step's type of it.
absl::Status CheckRate(const Program& step, double rate);

// Returns all data inputs of the step. Errors: those of CheckRate; the batch
// has another number of inputs.
absl::StatusOr<std::vector<Tensor>> StepInputs(const Program& step,
                                               absl::Span<const Tensor> batch,
                                               double rate);

}  // namespace asyra
