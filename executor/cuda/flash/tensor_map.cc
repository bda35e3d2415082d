#include "executor/cuda/flash/tensor_map.h"

#include <cuda.h>

#include <cstring>

#include "executor/cuda/device/driver_function.h"
#include "ir/support/status.h"

namespace asyra::cuda {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));

absl::Status Encode(const HeadsMap& heads, TensorMap* map) {
  ASYRA_ASSIGN_OR_RETURN(void* function,
                         DriverFunction("cuTensorMapEncodeTiled", 12000));
  if (function == nullptr) {
    return Unimplemented("the driver has no cuTensorMapEncodeTiled");
  }
  constexpr cuuint64_t kBytes = 2;
  auto width = static_cast<cuuint64_t>(heads.width),
       count = static_cast<cuuint64_t>(heads.heads),
       rows = static_cast<cuuint64_t>(heads.rows);
  cuuint64_t sizes[] = {width, count, rows,
                        static_cast<cuuint64_t>(heads.batch)};
  cuuint64_t strides[] = {width * kBytes, count * width * kBytes,
                          rows * count * width * kBytes};
  cuuint32_t box[] = {64, 1, static_cast<cuuint32_t>(heads.box_rows), 1};
  cuuint32_t steps[] = {1, 1, 1, 1};
  CUtensorMap encoded;
  CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(
      function)(&encoded,
                heads.bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                           : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                4, const_cast<void*>(heads.data), sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return absl::InternalError(fmt::format("cuTensorMapEncodeTiled: error {}",
                                           static_cast<int>(result)));
  }
  std::memcpy(map, &encoded, sizeof(encoded));
  return absl::OkStatus();
}

}  // namespace asyra::cuda
