// Undoes tiling for chosen ops: the K ops that do one thing on K tiles become
// one op on the whole. Tiles are joined before it and cut after it, except
// where both cancel.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/analysis/lanes.h"

namespace asyra {

// The same op of every lane: op indices by lane.
using TileGroup = std::vector<int>;

// Merges groups of one program in many ways: what they are tiles of is found
// out once, when it is first asked for.
class TileMerger {
 public:
  // `program`, of stage scheduled, must outlive the merger and not change.
  explicit TileMerger(const Program& program) : program_(program) {}

  // The program with these groups merged, in an order that keeps to the old
  // one as far as the merged ops' dependences let it. Collectives and waits
  // are not merged here. `new_ops`, where it is asked for, tells for each old
  // op which one of the new program stands for it; -1: none. Errors: merged ops
  // that would wait for each other, a group whose results are not tiles of one
  // value.
  absl::StatusOr<Program> Merge(const std::vector<TileGroup>& groups,
                                std::vector<int>* new_ops = nullptr);

  const Program& program() const { return program_; }

 private:
  struct Facts {
    std::vector<std::optional<TileOf>> tiles;  // by value
    DefUse uses;
  };

  const Program& program_;
  std::optional<Facts> facts_;
};

}  // namespace asyra
