// What a user should hear of the cache on disk.
#pragma once

#include <string_view>

namespace asyra {

// One line on stderr where something could not be kept
// (executor/tuning/disk_cache.h): the next run then measures and compiles once
// more.
void WarnOfCache(std::string_view tool);

}  // namespace asyra
