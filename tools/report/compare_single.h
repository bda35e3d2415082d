// The outputs of a sharded run against those of one device.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "ir/tensor.h"

namespace asyra {

// The deviation of an output from that of one device, relative to its largest
// magnitude.
struct OffSingle {
  std::string name;
  double error = 0;
  double largest = 0;
};

// The allowed deviation of output `index` in a sharded run of `program`: the
// ShardedToleranceFor of the least exact float type among all values it is
// computed from. Inputs and views round nothing.
double ShardedToleranceOf(const Program& program, size_t index);

// Interprets `single`, the program before it was sharded, on one device and
// compares its outputs with `outputs`. Errors: it is sharded already; an output
// beyond its tolerance, with both.
absl::StatusOr<std::vector<OffSingle>> CompareSingle(
    Program single, absl::Span<const Tensor> inputs,
    absl::Span<const Tensor> outputs);

}  // namespace asyra
