// The places of a shard's bytes in the whole tensor: to read one from a file,
// and to write one into it.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/mesh.h"
#include "ir/type.h"

namespace asyra {

// Elements that are contiguous in the whole tensor and in the shard.
struct ShardRun {
  int64_t whole = 0, shard = 0;  // the first one, in each
  int64_t count = 0;
};

// The elements of the shard that `device` holds under `type` and that exist in
// a tensor of shape `whole`, in ascending order, each once, in the longest runs
// there are. `whole` is at most as large as `type`, of the same rank: the
// shard's other elements are padding. Stops at the first error of `body`.
absl::Status ForEachShardRun(absl::Span<const int64_t> whole, const Type& type,
                             const Mesh& mesh, int64_t device,
                             absl::FunctionRef<absl::Status(ShardRun)> body);

}  // namespace asyra
