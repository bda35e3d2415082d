// The grid of options of a sweep, and its points: combinations of values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/compile.h"

namespace asyra {

struct GridAxis {
  std::string key;  // "tp", "machine", "dim.seq", "set.gpu.hbm_gbps"
  std::vector<std::string> values;
};

// Reads "tp=1,2,4"; values that have commas themselves are separated by
// semicolons, "mesh=dp=2,tp=4;tp=8". A key is the name of a flag of the
// compiler, or dim.NAME or set.KEY for what --dim and --set take; "graph" is 0
// or 1.
// Errors: no key or value, an unknown key (the known ones are listed), a key or
// a value twice.
absl::StatusOr<std::vector<GridAxis>> ParseGrid(
    const std::vector<std::string>& grid);

struct GridPoints {
  std::vector<std::vector<std::string>> values;  // by point, one per axis
  std::vector<CompileFlags> compile;             // by point
};

// All combinations, those of the last axis vary fastest.
// Errors: a value that its option does not take, more than 100000 points.
absl::StatusOr<GridPoints> Combine(const CompileFlags& base,
                                   const std::vector<GridAxis>& grid);

// Error: a flag of `given` (GivenFlags), or a key of the grid, that changes no
// point: one that another replaces, or that does nothing beside the others.
absl::Status CheckGridFlags(const std::vector<std::string>& given,
                            const CompileFlags& base,
                            const std::vector<GridAxis>& grid);

// Leaves out points of other than --ranks devices, and says how many.
size_t KeepRanks(GridPoints* grid);

// Adds each point's machine without --set once, so that points may try its
// schedule: a better number then never makes a step slower, even if the
// unchanged number is not in the grid. Its values of set.KEY are empty.
void AddUnchanged(const std::vector<GridAxis>& grid, GridPoints* all);

}  // namespace asyra
