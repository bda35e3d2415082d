#include "passes/shard/sharding_plan.h"

#include <algorithm>

namespace asyra {

bool OpSharding::Shards(AxisId axis) const {
  return std::any_of(
      factors.begin(), factors.end(),
      [axis](const AxisList& axes) { return Contains(axes, axis); });
}

}  // namespace asyra
