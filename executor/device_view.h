// A tensor in memory of a device: what DLTensor of DLPack says, for tensors
// that are dense and row-major. Owns nothing.
#pragma once

#include "ir/type.h"

namespace asyra {

struct DeviceView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  // The device (Device::name); empty: the executor's own.
  std::string_view device = {};

  int64_t bytes() const { return NumElements(shape) * SizeOf(dtype); }
};

}  // namespace asyra
