// Element types in device code, which includes no header of the IR; in the
// order of DType (ir/type.h).
#pragma once

#include <cstdint>

namespace asyra::cuda {

enum class Element : int32_t { kBool, kI32, kI64, kF16, kBF16, kF32, kF64 };

}  // namespace asyra::cuda
