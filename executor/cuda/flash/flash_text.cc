#include "executor/cuda/flash/flash_text.h"

#include <algorithm>

#include "executor/cuda/flash/flash_sources.h"
#include "fmt/format.h"

namespace asyra::cuda {
namespace {

int64_t Panels(int64_t width) { return (width + 63) / 64; }
int64_t RoundTo16(int64_t width) { return (width + 15) / 16 * 16; }

// "%4, %5": `count` operands of an asm statement from number `first` on.
std::string Operands(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    fmt::format_to(std::back_inserter(text), "{}%{}", i > 0 ? ", " : "",
                   first + i);
  }
  return text;
}

enum class A { kShared, kRegisters };

// d += a b, or d = a b without `add`: a is 64 x 16, b 16 x n. A transposed
// factor in shared memory is contiguous along what is not summed.
std::string ProductText(bool bf16, int64_t n, A a, bool a_transposed,
                        bool b_transposed, std::string_view name) {
  int count = static_cast<int>(n / 2), of_a = a == A::kShared ? 1 : 4;
  std::string results, inputs;
  for (int i = 0; i < count; ++i) {
    fmt::format_to(std::back_inserter(results), "{}\"+f\"(d[{}])",
                   i > 0 ? ", " : "", i);
  }
  if (a == A::kShared) {
    inputs = "\"l\"(a)";
  } else {
    inputs = "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])";
  }
  std::string from = a == A::kShared
                         ? Operands(count, 1)
                         : fmt::format("{{{}}}", Operands(count, 4));
  std::string type = bf16 ? "bf16" : "f16";
  return fmt::format(
      "__device__ __forceinline__ void {}(float (&d)[{}], {} a, uint64 b, int "
      "add) {{\n"
      "  asm volatile(\"{{\\n.reg .pred add;\\nsetp.ne.b32 add, %{}, 0;\\n\"\n"
      "      \"wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{} \"\n"
      "      \"{{{}}}, {}, %{}, add, 1, 1{}, {};\\n}}\\n\"\n"
      "      : {}\n"
      "      : {}, \"l\"(b), \"r\"(add));\n"
      "}}\n",
      name, count, a == A::kShared ? "uint64" : "const uint32*",
      count + of_a + 1, n, type, type, Operands(0, count), from, count + of_a,
      a == A::kShared ? (a_transposed ? ", 1" : ", 0") : "",
      b_transposed ? 1 : 0, results, inputs);
}

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
  define("SINKS", design.sinks.has_value() ? 1 : 0);
  define("SINK_TYPE", NumberOf(design.sinks));
  define("LENGTHS", BytesOf(design.lengths));
  define("TILES", design.tiles[0] > 0 ? 1 : 0);
  define("TILES_H", design.tiles[1]);
  define("TILES_M", design.tiles[2]);
  define("TILES_N", design.tiles[3]);
  define("GROUPS", tiling.groups);
  define("BM", tiling.rows);
  define("BN", tiling.keys);
  define("STAGES", tiling.stages);
  // 128 threads of one and 256 of the other have 64512 registers of 65536.
  define("PRODUCER_REGS", 24);
  define("CONSUMER_REGS", 240);
  define("kF32", static_cast<int>(Element::kF32));
  define("kBF16", static_cast<int>(Element::kBF16));
  text += kFlashParams;
  text += kFlashCommon;
  return text;
}

}  // namespace

FlashTiling ForwardTiling(const FlashDesign& design) {
  FlashTiling tiling;
  if (std::max(design.d, design.e) > 192 || design.e > 128) tiling.keys = 64;
  int64_t of_rows = Panels(design.d) * tiling.rows,
          of_keys = (Panels(design.d) + Panels(design.e)) * tiling.keys;
  // Panels of 128 bytes a row, and room to begin at a multiple of 1024.
  tiling.shared_bytes = 128 * (of_rows + tiling.stages * of_keys) + 1024;
  return tiling;
}

std::string FlashForwardText(const FlashDesign& design) {
  FlashTiling tiling = ForwardTiling(design);
  std::string text = Head(design, tiling);
  text += ProductText(design.bf16, tiling.keys, A::kShared, false, false,
                      "ProductSS");
  text += ProductText(design.bf16, RoundTo16(design.e), A::kRegisters, false,
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
  auto bytes = [&](int stages) {
    return 128 * panels * (tiling.keys + stages * tiling.rows) +
           128 * tiling.keys + dq_row * tiling.rows + 1024;
  };
  if (bytes(tiling.stages) > kMostShared) tiling.stages = 1;
  tiling.shared_bytes = bytes(tiling.stages);
  return tiling;
}

std::string FlashBackwardText(const FlashDesign& design) {
  FlashTiling tiling = BackwardTiling(design);
  std::string text = Head(design, tiling);
  auto product = [&](int64_t n, A a, bool transposed, std::string_view name) {
    text += ProductText(design.bf16, n, a, transposed && a == A::kShared,
                        transposed, name);
  };
  product(tiling.rows, A::kShared, false, "ProductScores");
  product(RoundTo16(design.d), A::kRegisters, true, "ProductDk");
  product(RoundTo16(design.e), A::kRegisters, true, "ProductDv");
  product(DqColumns(design, tiling.groups), A::kShared, true, "ProductDq");
  text += kFlashBackward;
  if (design.tiles[0] > 0) text += kFlashTiles;
  return text;
}

}  // namespace asyra::cuda
