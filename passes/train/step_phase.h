// The parts of a training step.
#pragma once

#include <string_view>
#include <vector>

#include "ir/program.h"

namespace asyra {

enum class StepPhase { kForward, kBackward, kUpdate };

// "forward", "backward", "update".
std::string_view ToString(StepPhase phase);

// Returns, by op, whether the loss, or the sum of it (attach_loss.h), depends
// on it. All false in a program without either.
std::vector<bool> ForwardOps(const Program& program);

// Returns one phase for each op of a training step (attach_updates), or of one
// that only adds up gradients (accumulate_gradients), at any stage. Forward is
// what the loss depends on. Update is what depends on the learning rate, the
// count of steps or the norm of the gradients, and what computes that norm.
// Backward is the rest: the gradients. Empty if the program is none of both.
std::vector<StepPhase> PhasesOf(const Program& program);

// Returns whether the program has phases.
bool IsTrainingStep(const Program& program);

}  // namespace asyra
