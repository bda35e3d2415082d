// The bytes that a collective moves, in terms that fit every communicator: each
// member's result is put together, along one dimension or as a sum, from one
// chunk of every member's operand, or is the operand of one of them. Of several
// operands each has its own chunks.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "executor/comm/communicator.h"

namespace asyra {

// Member i's result has, for each member j, the elements of j's operand
//   [outer][from: part i of from_size][middle][to...]
// as `runs` runs of `run_elements` elements that are contiguous in both. In the
// operand, run r begins at ReadAt(i, r), in the result at WriteAt(j, r).
struct CollectiveGeometry {
  bool sums = false;  // chunks of all members are added, not put side by side
  // s > 0: member i's result is the operand of member i - s, the first
  // following the last, and nothing else.
  int64_t shift = 0;
  DType dtype = DType::kF32;
  int64_t run_elements = 0;
  // Runs are counted by two loops: `outer` times `middle`.
  int64_t outer = 1, middle = 1;
  int64_t read_outer = 0, read_middle = 0, read_member = 0;     // elements
  int64_t write_outer = 0, write_middle = 0, write_member = 0;  // elements

  // Returns whether a member's result has a chunk of another's operand.
  bool Moves(int64_t from, int64_t to, int64_t members) const {
    return shift == 0 || (from + shift) % members == to;
  }
  int64_t runs() const { return outer * middle; }
  int64_t chunk_elements() const { return runs() * run_elements; }
  int64_t ReadAt(int64_t member, int64_t run) const {
    return run / middle * read_outer + run % middle * read_middle +
           member * read_member;
  }
  int64_t WriteAt(int64_t member, int64_t run) const {
    return run / middle * write_outer + run % middle * write_middle +
           member * write_member;
  }
};

// Returns the geometry of each operand and its result. Error: an unknown kind
// of collective.
absl::StatusOr<std::vector<CollectiveGeometry>> GeometriesOf(
    const CollectiveUse& use);

}  // namespace asyra
