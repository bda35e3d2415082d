// Converts the IR's element types to those of device code and back.
#pragma once

#include "executor/cuda/device/element.h"
#include "ir/type.h"

namespace asyra::cuda {

static_assert(static_cast<int>(DType::kBool) ==
              static_cast<int>(Element::kBool));
static_assert(static_cast<int>(DType::kF64) == static_cast<int>(Element::kF64));

inline Element ElementOf(DType dtype) { return static_cast<Element>(dtype); }
inline DType DTypeOf(Element element) { return static_cast<DType>(element); }

}  // namespace asyra::cuda
