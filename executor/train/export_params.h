// Params in one file, for other programs.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "executor/comm/communicator.h"
#include "executor/state_set.h"
#include "executor/train/checkpoint.h"

namespace asyra {

// Writes the params among `values` to one safetensors file, whole, under their
// names; all ranks of `world` call it (null: one rank). Errors: the system's;
// then the file is not there, or as it was.
absl::Status ExportParams(const std::string& path,
                          absl::Span<const CheckpointValue> values,
                          const Mesh& mesh, Communicator* world,
                          StateSet& states);

}  // namespace asyra
