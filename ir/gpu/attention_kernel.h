// The kernel that computes an attention or its gradient on a GPU: the one rule
// that costs and executors go by.
#pragma once

#include <cstdint>
#include <string>

#include "ir/op_def.h"

namespace asyra {

enum class AttentionKernel : uint8_t {
  kLibrary,  // cuDNN's: 16-bit, without mask, sinks and softcap
  kFlash,    // our own on tensor cores
  kPlain,    // our own without them, for any type and mask
};

// Returns whether the op is attention or its gradient.
bool IsAttention(const OpDef& def);

// Properties that decide whether our own kernel on tensor cores takes a use.
struct FlashUse {
  bool sixteen_bits = false;    // f16 or bf16
  int64_t head = 0, value = 0;  // sizes of a head in q and k, and in v
  double hidden = 0;            // attribute of attention
  bool gradient = false;
  bool of_extras = false;  // the gradient of a mask or of sinks
};

// Why it does not, in words; empty if it does.
std::string FlashObstacle(const FlashUse& use);

struct AttentionChoice {
  AttentionKernel kernel = AttentionKernel::kLibrary;
  std::string obstacle;  // of kPlain: why not one on tensor cores
  // Properties beside sizes that decide the time of the others: "bool mask,
  // softcap"; empty of kLibrary.
  std::string traits;
};

// For a call of attention or attention_grad on a GPU of compute capability 9.0;
// its types may be local or distributed. cuDNN may still leave a use to kFlash:
// rows that see no key, or bands that it does not have.
AttentionChoice AttentionKernelOf(const OpCall& call);

}  // namespace asyra
