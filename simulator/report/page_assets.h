// The files of simulator/page, embedded at build time.
#pragma once

#include <string_view>

namespace asyra {

// The text of a file by its name, "timeline.js". It must be there.
std::string_view PageAsset(std::string_view name);

}  // namespace asyra
