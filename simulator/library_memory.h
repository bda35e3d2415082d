// What a process takes of a GPU besides the values of its program.
#pragma once

#include <cstdint>

#include "ir/program.h"
#include "simulator/machine.h"

namespace asyra {

// The context of the process, and the buffers of its communicators: one for
// each set of axes, and each number of thread blocks. Collectives that copy
// engines carry need none.
int64_t LibraryBytes(const Program& program, const Machine& machine);

// Where the blocks of the other members arrive, of sums that copy engines
// carry: for each stream as much as the op that needs most. What other kernels
// work in is not counted.
int64_t WorkspaceBytes(const Program& program, const Machine& machine);

}  // namespace asyra
