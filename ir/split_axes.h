// A mesh axis as two, so that collectives can be over a part of it.
//
//   mesh (dp=16)        f32[8192@dp, 4096] partial(dp)
// with dp split at 8 becomes
//   mesh (dp.hosts=2, dp=8)        f32[8192@(dp.hosts,dp), 4096] ...
//
// The devices, and what each of them holds, stay the same: a list of axes is
// read outermost first, and so is the mesh.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

struct AxisSplit {
  std::string axis;             // the name of the inner part too
  int64_t inner = 1;            // the size afterwards; divides the size before
  std::string outer = "hosts";  // the outer part is called dp.hosts
};

// Returns whether an axis of such a name is the outer part of `axis`, and
// whether the axis is a part of another.
bool IsOuterPart(std::string_view name, std::string_view axis);
bool IsPart(const Mesh& mesh, AxisId axis);
// Returns the name of the axis before it was split: "dp" of "dp.hosts".
std::string_view WholeAxisName(std::string_view axis);

// The program over the mesh with these axes split, of any stage.
// Errors: an axis that the mesh lacks, a size that does not divide, a mesh that
// cannot be (Mesh::Create).
absl::StatusOr<Program> SplitAxes(Program program,
                                  absl::Span<const AxisSplit> splits);

// The splits that a mesh shows by its names: (dp.hosts=2, dp=8) that of dp,
// once for each axis.
std::vector<AxisSplit> SplitsOf(const Mesh& mesh);
// The mesh before them: (dp=16).
Mesh WithoutSplits(const Mesh& mesh);

}  // namespace asyra
