// Gives memory blocks their offsets in one arena.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/memory/memory_blocks.h"
#include "ir/support/alignment.h"

namespace asyra {

struct ArenaOptions {
  int64_t alignment = kArenaAlignment;
  int64_t padding = 0;  // unused bytes after each block
  // The first layout found of at most so many bytes is taken, or where more are
  // in use at once, the first that is within 1/128 of these; 0: the smallest
  // found, which takes many times as long.
  int64_t enough_bytes = 0;
  // True: only asks whether there is such a layout, and gives up if the first
  // order comes nowhere near.
  bool enough_or_nothing = false;
};

struct ArenaLayout {
  int64_t bytes = 0;             // of the arena, a multiple of the alignment
  std::vector<int64_t> offsets;  // by block, multiples of the alignment

  // Returns the offset of a value; -1 if it is MemoryBlocks::kOutside.
  int64_t OffsetOf(const MemoryBlocks& blocks, ValueId value) const {
    int block = blocks.BlockOf(value);
    return block == MemoryBlocks::kOutside ? -1 : offsets[block];
  }
};

// No two blocks that interfere overlap. Blocks are placed one by one, each
// into a gap between those that it interferes with. Tried are several orders
// (largest first, longest, largest product of both, first to begin), each with
// the lowest and with the smallest gap that holds the block, and then orders
// with those blocks first that end highest in the last layout. A layout is
// given up once it is no smaller than the best, and an order once eight of its
// layouts in a row gain nothing; the smallest arena is kept. Not optimal, which
// is NP-hard (Garey and Johnson, SR2: dynamic storage allocation), but mostly
// close to MemoryBlocks::PeakBytes, a lower bound.
// Deterministic; near-linear while few blocks are in use at once.
ArenaLayout PlaceBlocks(const MemoryBlocks& blocks,
                        const ArenaOptions& options = {});

}  // namespace asyra
