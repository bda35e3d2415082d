// The text of attention kernels for Hopper compiles, whatever it is written
// for. No GPU is needed.
#include "executor/cuda/flash/flash_text.h"

#include "executor/cuda/codegen/nvrtc_module.h"
#include "gtest/gtest.h"

namespace asyra::cuda {
namespace {

constexpr NvrtcOptions kHopper = {.architecture = 90, .own_features = true};

std::vector<FlashDesign> Designs() {
  FlashDesign plain = {.d = 128, .e = 128};
  FlashDesign capped = {.bf16 = false, .d = 80, .e = 64, .cap = true};
  capped.sinks = Element::kF32;
  capped.lengths = Element::kI64;
  FlashDesign masked = {.d = 64, .e = 64, .mask = Element::kBool};
  masked.tiles[0] = masked.tiles[1] = masked.tiles[2] = 1;
  masked.tiles[3] = 7;
  FlashDesign biased = {.d = 192, .e = 128, .mask = Element::kBF16};
  biased.mask_pairs = true;
  FlashDesign documents = {.d = 64, .e = 64, .starts = Element::kI64};
  for (int64_t& tiles : documents.tiles) tiles = 3;
  FlashDesign both = documents;
  both.starts = Element::kI32;
  both.mask = Element::kF16;
  both.mask_copies = true;
  return {plain, capped, masked, biased, documents, both};
}

TEST(FlashText, Compiles) {
  for (const FlashDesign& design : Designs()) {
    EXPECT_LE(ForwardTiling(design).shared_bytes, kMostShared);
    EXPECT_LE(BackwardTiling(design).shared_bytes, kMostShared);
    for (const std::string& text :
         {FlashForwardText(design), FlashBackwardText(design)}) {
      auto cubin = CompileToCubin(text, kHopper);
      EXPECT_TRUE(cubin.ok()) << cubin.status();
    }
  }
}

// Heads that no tile of gradients has room for are refused by their bytes.
TEST(FlashText, SaysThatLargeHeadsDoNotFit) {
  FlashDesign large = {.d = 256, .e = 256};
  EXPECT_LE(ForwardTiling(large).shared_bytes, kMostShared);
  EXPECT_GT(BackwardTiling(large).shared_bytes, kMostShared);
}

}  // namespace
}  // namespace asyra::cuda
