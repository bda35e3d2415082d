// What a process takes of a GPU besides the values of its program.
#pragma once

#include <cstdint>

#include "ir/program.h"
#include "simulator/machine.h"

namespace asyra {

// The context of the process, and the buffers of its communicators: one for
// each set of axes. Collectives that copy engines carry need none.
int64_t LibraryBytes(const Program& program, const Machine& machine);

// What kernels work in: for each stream as much as the op that needs most. Of
// sums that copy engines carry, the blocks of the other members arrive there.
int64_t WorkspaceBytes(const Program& program, const Machine& machine);

}  // namespace asyra
