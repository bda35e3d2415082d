// A collective as messages between the members of its group. Only in builds
// with MPI (ASYRA_MPI).
#pragma once

#include <memory>

#include "executor/mpi/mpi_link.h"

namespace asyra {

// Called by all members in one order. Errors: messages of 2^31 elements or
// more, which MPI does not count.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareMpiCollective(
    std::shared_ptr<MpiLink> link, const CollectiveUse& use);

}  // namespace asyra
