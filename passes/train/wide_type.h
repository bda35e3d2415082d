// The type that training adds up in.
#pragma once

#include "ir/type.h"

namespace asyra {

// Returns f32 for 16-bit floats, else the same type.
inline DType WideType(DType dtype) {
  return Is16Bit(dtype) ? DType::kF32 : dtype;
}

}  // namespace asyra
