// Collectives whose chunks are not contiguous: a kernel packs them before the
// library's own, or unpacks them after it, as
// executor/cuda/comm/nccl_collective.cc does.
#pragma once

#include <cstdint>

#include "ir/op_def.h"

namespace asyra {

// Bytes that are packed and unpacked; 0: there is no such kernel.
struct Packing {
  int64_t before = 0, after = 0;
};

// For one operand and its result on one device. Zero for ops that are not
// collectives.
Packing PackingOf(const OpDef& def, const AttrMap& attrs, const Type& operand,
                  const Type& result);

}  // namespace asyra
