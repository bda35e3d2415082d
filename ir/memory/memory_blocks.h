// The memory blocks of a program that need offsets, and which of them may share
// bytes. ir/memory/place_blocks.h chooses the offsets.
//
// Order between streams is partial: two blocks may be unordered although their
// ops are far apart in program order. So a block has not one end but one on
// each stream: the first op there that comes after every access to the block,
// by happens-before (ir/happens_before.h). As that holds for all later ops of
// the stream too, "block a is done before block b begins" is one comparison.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/happens_before.h"
#include "ir/memory/buffer_map.h"
#include "ir/program.h"

namespace asyra {

// Values that share one buffer: a result with its views, and results that ops
// compute in place (OpDef::in_place) over an operand that nothing else reads
// any more.
struct MemoryBlock {
  int64_t bytes = 0;  // on one device
  int begin = 0;      // the op that writes it first
  int last = 0;       // the last op that accesses it
  // No op of the program from this one on can overlap it: a block that
  // interferes with it begins before this op.
  int end = 0;
};

class MemoryBlocks {
 public:
  // Operands of a start are accessed until the first wait for it; outputs to
  // the end. `in_place`: whether results may overwrite operands.
  MemoryBlocks(const Program& program, const HappensBefore& order,
               const DefUse& def_use, bool in_place = true);

  const std::vector<MemoryBlock>& all() const { return blocks_; }
  // The block of a value. kOutside: inputs, constants, outputs stored in the
  // state that they replace, and views of these.
  static constexpr int kOutside = -1;
  int BlockOf(ValueId value) const { return block_of_[RootOf(value)]; }

  // Returns whether two blocks may be in use at once. False for a block and
  // itself.
  bool Interfere(int a, int b) const {
    return a != b && !Before(a, b) && !Before(b, a);
  }
  // The largest sum of blocks in use at one op of the program, each rounded up
  // to `alignment`. They all interfere with each other, so no arena is smaller.
  int64_t PeakBytes(int64_t alignment) const;

 private:
  // Returns the value that owns the bytes, which a view does not.
  ValueId RootOf(ValueId value) const { return buffers_.OwnerOf(value); }
  void FindAccesses();
  void PlaceStates();
  void MakeBlocks();
  int AddBlock(ValueId value, int op);
  // The block that the result of an op may overwrite, or kOutside.
  int InPlaceBlock(int op, ValueId result) const;
  bool MayReplace(ValueId old, ValueId result) const;
  void Extend(int block, ValueId value);
  void FindEnds();
  bool Before(int a, int b) const {
    int op = blocks_[b].begin;
    return position_[op] >= done_from_[a * ops_on_.size() + slot_[op]];
  }

  const Program& program_;
  const HappensBefore& order_;
  const DefUse& def_use_;
  bool in_place_;
  BufferMap buffers_;
  std::vector<std::vector<int>> users_;  // by root: ops that access it
  std::vector<bool> kept_;               // by root: it is an output
  std::vector<bool> outside_;            // by root: stored in a state
  std::vector<int> block_of_;            // by root
  std::vector<MemoryBlock> blocks_;
  // By block: the ops that access it, its last value, whether it is an output.
  std::vector<HappensBefore::Frontier> accesses_;
  std::vector<ValueId> top_;
  std::vector<bool> block_kept_;
  std::vector<std::vector<int>> ops_on_;  // by stream, in program order
  std::vector<int> slot_, position_;  // by op: its stream and position there
  // By block and stream: the first position whose op, and so all later ones,
  // come after all that access the block.
  std::vector<int> done_from_;
};

}  // namespace asyra
