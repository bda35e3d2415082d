// Gradients of the loss by the parameters, in reverse mode.
#pragma once

#include <string>
#include <string_view>

#include "passes/pass.h"

namespace asyra {

// The data input that gradients are scaled by where some of them are f16.
inline constexpr char kLossScale[] = "loss_scale";

// "layer3.q_proj.weight" -> "layer3.q_proj.weight.grad"
std::string GradientName(std::string_view value);

// Differentiates a program with the outputs of attach_loss and inputs of role
// param: the gradient of loss_sum by each param becomes an output, called
// GradientName of it.
// - Ops are walked backwards from the loss. Gradients of a value that several
//   read are added in the order of that walk, so that sums are reproducible.
// - Gradients of 16-bit values are of their type, but computed in f32 by ops
//   element by element, by row or by lookup; params have theirs in f32.
// - Where some are f16, the loss is scaled by the data input `loss_scale`, and
//   so are all gradients.
// - Nothing is computed that no gradient needs.
// - A param that no gradient reaches has no such output; a remark names it.
// Errors: no loss output; a loss that depends on no param; an op without
// derivative between a param and the loss, with both.
absl::StatusOr<bool> Differentiate(Program& program, const PassOptions& options,
                                   PassContext& context);

}  // namespace asyra
