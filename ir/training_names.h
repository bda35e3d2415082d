// Names in the programs of a training: the passes that make them and the
// executors that run them agree on these.
#pragma once

namespace asyra {

// Of a step, and of what evaluates.
inline constexpr char kLabels[] = "labels";         // data: a class a row
inline constexpr char kRate[] = "rate";             // data: a number
inline constexpr char kStepCount[] = "step";        // state: steps made
inline constexpr char kLoss[] = "loss";             // output: sum / count
inline constexpr char kNorm[] = "norm";             // output: before clipping
inline constexpr char kLossSum[] = "loss_sum";      // output, between passes
inline constexpr char kLossCount[] = "loss_count";  // output: terms of the loss
// State, where losses are scaled: the binary logarithm of the scale over the
// first one.
inline constexpr char kLossScaleLog2[] = "loss_scale_log2";

// Of the program of first values: data, any number.
inline constexpr char kSeed[] = "seed";

}  // namespace asyra
