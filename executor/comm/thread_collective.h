// A collective between ranks that are threads: members synchronize, and each
// reads what it needs from the others' memory.
#pragma once

#include <memory>
#include <vector>

#include "executor/comm/collective_geometry.h"
#include "executor/comm/shared_world.h"
#include "executor/kernel.h"

namespace asyra {

// Makes the part of `rank`, a member of the group. `geometries` are
// GeometriesOf(use).
std::unique_ptr<Kernel> MakeThreadCollective(
    std::shared_ptr<SharedWorld> world, ThreadGroup* group, int64_t rank,
    const CollectiveUse& use, std::vector<CollectiveGeometry> geometries);

}  // namespace asyra
