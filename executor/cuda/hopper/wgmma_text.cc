#include "executor/cuda/hopper/wgmma_text.h"

#include "fmt/format.h"

namespace asyra::cuda {
namespace {

// "%4, %5": `count` operands of an asm statement from number `first` on.
std::string Operands(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    fmt::format_to(std::back_inserter(text), "{}%{}", i > 0 ? ", " : "",
                   first + i);
  }
  return text;
}

}  // namespace

std::string WgmmaText(bool bf16, int64_t n, WgmmaA a, bool a_transposed,
                      bool b_transposed, std::string_view name) {
  int count = static_cast<int>(n / 2), of_a = a == WgmmaA::kShared ? 1 : 4;
  std::string results, inputs;
  for (int i = 0; i < count; ++i) {
    fmt::format_to(std::back_inserter(results), "{}\"+f\"(d[{}])",
                   i > 0 ? ", " : "", i);
  }
  if (a == WgmmaA::kShared) {
    inputs = "\"l\"(a)";
  } else {
    inputs = "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])";
  }
  std::string from = a == WgmmaA::kShared
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
      name, count, a == WgmmaA::kShared ? "uint64" : "const uint32*",
      count + of_a + 1, n, type, type, Operands(0, count), from, count + of_a,
      a == WgmmaA::kShared ? (a_transposed ? ", 1" : ", 0") : "",
      b_transposed ? 1 : 0, results, inputs);
}

}  // namespace asyra::cuda
