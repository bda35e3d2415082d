// Device text for NVRTC, from the files of the same names (embed_text.cmake).
#pragma once

#include <string_view>

namespace asyra::cuda {

extern const std::string_view kTensorMapWords, kNumbers, kHopper;
extern const std::string_view kFlashBackward, kFlashCommon, kFlashForward,
    kFlashParams, kFlashTiles;
extern const std::string_view kFewRows;
extern const std::string_view kPackedMatmul, kPackedParams, kPackedTiles;

}  // namespace asyra::cuda
