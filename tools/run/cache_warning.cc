#include "tools/run/cache_warning.h"

#include "executor/tuning/disk_cache.h"
#include "ir/support/status.h"

namespace asyra {

void WarnOfCache(std::string_view tool) {
  absl::Status problem = DiskCache::OfProcess().problem();
  if (problem.ok()) return;
  fmt::print(stderr, "{}: warning: {}\n", tool, MessageOf(problem));
}

}  // namespace asyra
