// Names in the programs of a training: the passes that make them and the
// executors that run them agree on these.
#pragma once

#include <cstdint>
#include <string_view>

namespace asyra {

// Names in a step, and in programs that evaluate.
inline constexpr char kLabels[] = "labels";         // data: a class a row
inline constexpr char kRate[] = "rate";             // data: a scalar
inline constexpr char kStepCount[] = "step";        // state: steps made
inline constexpr char kLoss[] = "loss";             // output: sum / count
inline constexpr char kNorm[] = "norm";             // output: before clipping
inline constexpr char kLossSum[] = "loss_sum";      // output, between passes
inline constexpr char kLossCount[] = "loss_count";  // output: terms of the loss
// State, where losses are scaled: the binary logarithm of the scale over the
// first one.
inline constexpr char kLossScaleLog2[] = "loss_scale_log2";

// States of a step of several batches: a sum over those before, of the value
// that is called as they are but for this. They are zeros between two steps,
// and no part of a checkpoint.
inline constexpr std::string_view kAccumulated = ".accumulated";
inline bool IsAccumulated(std::string_view state) {
  return state.ends_with(kAccumulated);
}

// Label of a token whose loss does not count.
inline constexpr int64_t kIgnoredLabel = -100;

// The data input of the places where tokens' documents begin
// (passes/raise/mask_documents.h).
inline constexpr char kDocumentStarts[] = "document_starts";

// The input of the program of first values: data, any scalar.
inline constexpr char kSeed[] = "seed";

}  // namespace asyra
