// A warning about the disk cache.
#pragma once

#include <string_view>

namespace asyra {

// One line on stderr if an entry could not be written
// (executor/tuning/disk_cache.h): the next run then measures and compiles
// again.
void WarnOfCache(std::string_view tool);

}  // namespace asyra
