// The text of attention kernels for Hopper's tensor cores, which NVRTC
// compiles.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "executor/cuda/device/element.h"

namespace asyra::cuda {

// The uses that a kernel is written for.
struct FlashDesign {
  bool bf16 = true;
  int64_t d = 0, e = 0;  // sizes of a head of q and k, and of v
  bool cap = false;
  std::optional<Element> mask, sinks, lengths, starts;
  // Keys of the mask lie 0 or 1 elements apart; pairs of them are aligned.
  int mask_keys = 1;
  bool mask_pairs = false;
  // The copy engine brings tiles of the mask, which adds 16-bit elements.
  bool mask_copies = false;
  // Tiles of the mask, or of what starts hide, by [batch, heads, rows, keys],
  // where there are some.
  int64_t tiles[4] = {0, 0, 0, 0};
};

constexpr int64_t kMostShared = 227 << 10;  // bytes of a block

// Sizes of a kernel's blocks.
struct FlashTiling {
  int groups = 2;  // of 128 threads and 64 rows or keys, beside one that copies
  int rows = 128, keys = 128, stages = 2;
  int ds_buffers = 1;  // of gradients: of those of scores
  int64_t shared_bytes = 0;
};
FlashTiling ForwardTiling(const FlashDesign& design);
FlashTiling BackwardTiling(const FlashDesign& design);
// Columns of dq that each group of a block computes.
int64_t DqColumns(const FlashDesign& design, int groups);

// Writes the kernels flash_forward and, where the design has tiles,
// flash_tiles.
std::string FlashForwardText(const FlashDesign& design);
// Writes the kernels flash_rows, flash_backward, flash_dq and, where the design
// has tiles, flash_tiles.
std::string FlashBackwardText(const FlashDesign& design);

}  // namespace asyra::cuda
