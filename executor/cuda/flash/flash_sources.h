// Device text, from the files of the same names (embed_text.cmake).
#pragma once

#include <string_view>

namespace asyra::cuda {

extern const std::string_view kFlashBackward, kFlashCommon, kFlashForward,
    kFlashParams, kFlashTiles;

}  // namespace asyra::cuda
