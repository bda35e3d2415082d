#include "ir/gpu/attention_kernel.h"

#include <cmath>
#include <string_view>

#include "fmt/format.h"
#include "ir/ops/attention.h"

namespace asyra {
namespace {

constexpr int64_t kMostHead = 256, kHeadMultiple = 8;
// Tiles of q, k, v and gradients are in shared memory, in panels of 64 columns.
constexpr int64_t kPanel = 64, kMostGradPanels = 6;

int64_t Panels(int64_t size) { return (size + kPanel - 1) / kPanel; }

std::string TraitsOf(const OpCall& call, const ops::AttentionExtras& extras) {
  std::string traits;
  auto add = [&](std::string_view trait) {
    traits += fmt::format("{}{}", traits.empty() ? "" : ", ", trait);
  };
  if (extras.mask >= 0) {
    const Type& mask = call.operands[extras.mask];
    // One row for all hides what is padding, rows of their own mostly half.
    add(fmt::format("{} mask{}", mask.dtype == DType::kBool ? "bool" : "float",
                    mask.size(2) == 1 ? " of keys" : ""));
  }
  if (extras.lengths >= 0) add("lengths");
  if (extras.starts >= 0) add("documents");
  if (extras.sinks >= 0) add("sinks");
  if (call.attrs.Float("softcap") > 0) add("softcap");
  return traits;
}

}  // namespace

bool IsAttention(const OpDef& def) {
  return def.name == "attention" || def.name == "attention_grad";
}

std::string FlashObstacle(const FlashUse& use) {
  if (!use.sixteen_bits) return "elements of other than 16 bits";
  if (use.of_extras) return "a gradient of masks or sinks";
  bool fits = use.head % kHeadMultiple == 0 && use.value % kHeadMultiple == 0 &&
              use.head <= kMostHead && use.value <= kMostHead;
  if (use.gradient) {
    fits = fits && Panels(use.head) + Panels(use.value) <= kMostGradPanels;
  }
  if (!fits) {
    return fmt::format(
        "heads of {} and {}{}", use.head, use.value,
        use.gradient ? ", whose gradients need more memory" : "");
  }
  if (std::isfinite(use.hidden)) {
    return fmt::format("keys that are hidden by a score of {}", use.hidden);
  }
  return "";
}

AttentionChoice AttentionKernelOf(const OpCall& call) {
  const bool gradient = call.def.name == "attention_grad";
  ops::AttentionExtras extras(
      call.operands, gradient ? ops::kFirstGradExtra : ops::kFirstExtra);
  const Type& q = call.operands[0];
  const bool of_extras = gradient && call.attrs.Get<std::string>("of") != "qkv";
  AttentionChoice choice = {.traits = TraitsOf(call, extras)};
  const bool is_plain_softmax = extras.mask < 0 && extras.sinks < 0 &&
                                extras.starts < 0 &&
                                call.attrs.Float("softcap") <= 0;
  const double hidden = call.attrs.Float("hidden");
  if (Is16Bit(q.dtype) && is_plain_softmax && !of_extras &&
      hidden <= ops::kAsGoodAsHidden) {
    return choice;
  }
  choice.kernel = AttentionKernel::kFlash;
  choice.obstacle = FlashObstacle({.sixteen_bits = Is16Bit(q.dtype),
                                   .head = q.size(3),
                                   .value = call.operands[2].size(3),
                                   .hidden = hidden,
                                   .gradient = gradient,
                                   .of_extras = of_extras});
  if (!choice.obstacle.empty()) choice.kernel = AttentionKernel::kPlain;
  return choice;
}

}  // namespace asyra
