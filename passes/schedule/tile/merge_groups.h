// Pass `merge_groups`: merges what bucketing has chosen (bucket.h), by the
// names of BucketCandidates, or by their keys, which are the same in a program
// of more layers. This repeats a plan made with a few layers on all layers.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "passes/pass.h"
#include "passes/pass_manager.h"

namespace asyra {

// Returns the pass with these names.
PassRun MergePass(absl::Span<const std::string> names);

// Names that the program does not have are left out.
absl::StatusOr<bool> MergeGroups(Program& program, const PassOptions& options,
                                 PassContext& context);

}  // namespace asyra
