// Text that a trained model of bytes writes.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "ir/weights/weight_store.h"

namespace asyra {

struct SampleOptions {
  std::string prompt = "\n";
  int64_t count = 400;  // bytes to write
  // Logits are divided by it; 0: always the likeliest byte.
  double temperature = 0.8;
  int64_t seed = 1;
};

// Returns what the model writes behind the prompt. `forward` is of stage
// global: tokens i64 [rows, length] in, logits [rows, length, classes] out,
// causal, since what comes after the text is not written yet; only the first
// row is used. Each byte takes a step on one cpu, which reads the last `length`
// bytes. `params` are those of a checkpoint; other weights are the program's.
// Errors: a program of other inputs or outputs; a param that is missing or of
// another shape; an empty prompt; those of the executor.
absl::StatusOr<std::string> SampleText(Program forward,
                                       const WeightStore& params,
                                       const SampleOptions& options);

}  // namespace asyra
