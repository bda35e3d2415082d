#include "executor/cuda/hopper/tensor_map.h"

#include <cuda.h>

#include <cstring>

#include "executor/cuda/device/driver_function.h"
#include "ir/support/status.h"

namespace asyra::cuda {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));

namespace {

CUtensorMapDataType TypeOf(Element element) {
  switch (element) {
    case Element::kBF16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case Element::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  }
}

}  // namespace

absl::Status Encode(const HeadsMap& heads, TensorMap* map) {
  ASYRA_ASSIGN_OR_RETURN(void* function,
                         DriverFunction("cuTensorMapEncodeTiled", 12000));
  if (function == nullptr) {
    return Unimplemented("the driver has no cuTensorMapEncodeTiled");
  }
  constexpr cuuint32_t kRowBytes = 128;
  const cuuint64_t size = heads.element == Element::kF32 ? 4 : 2;
  auto width = static_cast<cuuint64_t>(heads.width),
       count = static_cast<cuuint64_t>(heads.heads),
       rows = static_cast<cuuint64_t>(heads.rows);
  cuuint64_t sizes[] = {width, count, rows,
                        static_cast<cuuint64_t>(heads.batch)};
  auto bytes = [&](int64_t stride, cuuint64_t dense) {
    return size * (stride > 0 ? static_cast<cuuint64_t>(stride) : dense);
  };
  cuuint64_t strides[] = {bytes(heads.head_stride, width),
                          bytes(heads.row_stride, count * width),
                          bytes(heads.batch_stride, rows * count * width)};
  cuuint32_t box[] = {kRowBytes / static_cast<cuuint32_t>(size), 1,
                      static_cast<cuuint32_t>(heads.box_rows), 1};
  cuuint32_t steps[] = {1, 1, 1, 1};
  CUtensorMap encoded;
  CUresult result =
      reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function)(
          &encoded, TypeOf(heads.element), 4, const_cast<void*>(heads.data),
          sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
          CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return absl::InternalError(fmt::format("cuTensorMapEncodeTiled: error {}",
                                           static_cast<int>(result)));
  }
  std::memcpy(map, &encoded, sizeof(encoded));
  return absl::OkStatus();
}

}  // namespace asyra::cuda
