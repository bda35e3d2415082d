// The weights of a trained model in one file, for other programs.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/comm/communicator.h"
#include "executor/state_set.h"
#include "executor/train/checkpoint.h"
#include "ir/program.h"
#include "ir/weights/weight_store.h"

namespace asyra {

// Writes all float weights of the model to one safetensors file, whole, under
// the names and in the shapes that users know (ir/weight_origin.h): params as
// `states` has them, the others as `step` has their data, and both names of
// those that are one. A part of a tensor that `step` has not all of is under a
// name of its own. All ranks of `world` call it (null: one rank), after
// `steps_done`. `values` are those of `step`. They write the parts in a folder
// beside the file, which is removed. Errors: the system's; then the file is not
// there, or as it was.
absl::Status ExportModel(const std::string& path, const Program& step,
                         int64_t steps_done,
                         absl::Span<const CheckpointValue> values,
                         Communicator* world, StateSet& states);

// Returns the tensors of the params, under the names and in the shapes of the
// model's file.
WeightStore TensorsOfFile(const Program& step, const WeightStore& exported);

}  // namespace asyra
