// All meshes of a number of devices, as values of a grid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/compile.h"
#include "tools/what_if/sweep_grid.h"

namespace asyra {

// Every way to write `ranks` as a product of sizes of these axes, as --mesh
// takes it: "dp=4,tp=2"; axes of size 1 are left out ("dp=1" where all are).
std::vector<std::string> MeshesOf(int64_t ranks,
                                  const std::vector<std::string>& axes);

// Puts them in place of "auto" in the values of mesh: axes dp, sp and tp, and
// ep where the model has experts. Error: there is no --ranks; those of loading
// the model.
absl::Status ExpandMeshes(const CompileFlags& base,
                          std::vector<GridAxis>* grid);

}  // namespace asyra
