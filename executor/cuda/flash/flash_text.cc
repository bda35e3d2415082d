#include "executor/cuda/flash/flash_text.h"

#include <algorithm>
#include <utility>

#include "executor/cuda/hopper/device_texts.h"
#include "executor/cuda/hopper/wgmma_text.h"
#include "fmt/format.h"

namespace asyra::cuda {
namespace {

int64_t Panels(int64_t width) { return (width + 63) / 64; }
int64_t RoundTo16(int64_t width) { return (width + 15) / 16 * 16; }

int MaskKind(const FlashDesign& design) {
  if (!design.mask.has_value()) return 0;
  return *design.mask == Element::kBool ? 1 : 2;
}

int BytesOf(std::optional<Element> integers) {
  if (!integers.has_value()) return 0;
  return *integers == Element::kI64 ? 8 : 4;
}

int NumberOf(std::optional<Element> element) {
  return static_cast<int>(element.value_or(Element::kF32));
}

// Constants and what all kernels share.
std::string Head(const FlashDesign& design, const FlashTiling& tiling) {
  std::string text;
  auto define = [&](std::string_view name, int64_t value) {
    fmt::format_to(std::back_inserter(text), "#define {} {}\n", name, value);
  };
  define("BF16", design.bf16 ? 1 : 0);
  define("D", design.d);
  define("E", design.e);
  define("ND", RoundTo16(design.d));
  define("NE", RoundTo16(design.e));
  define("CAP", design.cap ? 1 : 0);
  define("MASK", MaskKind(design));
  define("MASK_TYPE", NumberOf(design.mask));
  define("MASK_KEYS", design.mask_keys);
  define("MASK_PAIRS", design.mask_pairs ? 1 : 0);
  define("MASK_COPIES", design.mask_copies ? 1 : 0);
  define("SINKS", design.sinks.has_value() ? 1 : 0);
  define("SINK_TYPE", NumberOf(design.sinks));
  define("LENGTHS", BytesOf(design.lengths));
  define("STARTS", BytesOf(design.starts));
  define("TILES", design.tiles[0] > 0 ? 1 : 0);
  define("TILES_H", design.tiles[1]);
  define("TILES_M", design.tiles[2]);
  define("TILES_N", design.tiles[3]);
  define("GROUPS", tiling.groups);
  define("BM", tiling.rows);
  define("BN", tiling.keys);
  define("STAGES", tiling.stages);
  define("DS_BUFFERS", tiling.ds_buffers);
  // 128 threads of one and 256 of the other have 64512 registers of 65536.
  define("PRODUCER_REGS", 24);
  define("CONSUMER_REGS", 240);
  define("kF32", static_cast<int>(Element::kF32));
  define("kBF16", static_cast<int>(Element::kBF16));
  text += kTensorMapWords;
  text += kFlashParams;
  text += kNumbers;
  text += kHopper;
  text += kFlashCommon;
  return text;
}

}  // namespace

FlashTiling ForwardTiling(const FlashDesign& design) {
  FlashTiling tiling;
  if (std::max(design.d, design.e) > 192 || design.e > 128) tiling.keys = 64;
  int64_t of_rows = Panels(design.d) * tiling.rows,
          of_keys = (Panels(design.d) + Panels(design.e)) * tiling.keys;
  if (design.mask_copies) of_keys += Panels(tiling.keys) * tiling.rows;
  // Panels of 128 bytes a row, and room to begin at a multiple of 1024.
  tiling.shared_bytes = 128 * (of_rows + tiling.stages * of_keys) + 1024;
  return tiling;
}

std::string FlashForwardText(const FlashDesign& design) {
  FlashTiling tiling = ForwardTiling(design);
  std::string text = Head(design, tiling);
  text += WgmmaText(design.bf16, tiling.keys, WgmmaA::kShared, false, false,
                    "ProductSS");
  text += WgmmaText(design.bf16, RoundTo16(design.e), WgmmaA::kRegisters, false,
                    true, "ProductRS");
  text += kFlashForward;
  if (design.tiles[0] > 0) text += kFlashTiles;
  return text;
}

int64_t DqColumns(const FlashDesign& design, int groups) {
  int64_t panels = Panels(design.d);
  return panels == 1 ? 64 / groups : (panels + groups - 1) / groups * 64;
}

FlashTiling BackwardTiling(const FlashDesign& design) {
  FlashTiling tiling = {.rows = 64};
  int64_t panels = Panels(design.d) + Panels(design.e);
  int64_t dq_row = 4 * tiling.groups * DqColumns(design, tiling.groups);
  int64_t of_rows = panels + (design.mask_copies ? Panels(tiling.keys) : 0);
  // The first that fits, else the least.
  for (auto [stages, buffers] :
       {std::pair(2, 2), std::pair(2, 1), std::pair(1, 2), std::pair(1, 1)}) {
    tiling.stages = stages;
    tiling.ds_buffers = buffers;
    tiling.shared_bytes =
        128 * (panels * tiling.keys + stages * of_rows * tiling.rows) +
        128 * buffers * tiling.keys + dq_row * tiling.rows +
        8 * stages * tiling.rows + 1024;
    if (tiling.shared_bytes <= kMostShared) break;
  }
  return tiling;
}

std::string FlashBackwardText(const FlashDesign& design) {
  FlashTiling tiling = BackwardTiling(design);
  std::string text = Head(design, tiling);
  auto product = [&](int64_t n, WgmmaA a, bool transposed,
                     std::string_view name) {
    text += WgmmaText(design.bf16, n, a, transposed && a == WgmmaA::kShared,
                      transposed, name);
  };
  product(tiling.rows, WgmmaA::kShared, false, "ProductScores");
  product(RoundTo16(design.d), WgmmaA::kRegisters, true, "ProductDk");
  product(RoundTo16(design.e), WgmmaA::kRegisters, true, "ProductDv");
  product(DqColumns(design, tiling.groups), WgmmaA::kShared, true, "ProductDq");
  text += kFlashBackward;
  if (design.tiles[0] > 0) text += kFlashTiles;
  return text;
}

}  // namespace asyra::cuda
