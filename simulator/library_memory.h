// What a device has, and what a process takes of it besides the values of its
// program.
#pragma once

#include <cstdint>

#include "ir/program.h"
#include "simulator/machine.h"

namespace asyra {

// The context of the process, its captured step, and the buffers of its
// communicators
// (LibraryMemory): one for each set of axes, and each number of CTAs;
// few CTAs take little. Collectives that copy engines carry need none.
int64_t LibraryBytes(const Program& program, const Machine& machine);

// What kernels work in: for each stream as much as the op that needs most.
// Collectives that add up by copies, for the chunks of the others; those of the
// library, for chunks that they pack (packing.h); matmuls, what a machine
// says. What attention and convolutions work in is not counted.
int64_t WorkspaceBytes(const Program& program, const Machine& machine);

int64_t GibBytes(double gib);

// The bytes of a device that a step may use in all, values, libraries and
// kernels together: `gib`, or what the machine has where that is below 0.
// 0: any number.
int64_t CapacityBytes(double gib, const Machine& machine);

// What of a capacity is left to the values of the program, at least 1; of 0,
// which is any number, 0.
int64_t ValueBytes(int64_t capacity_bytes, const Program& program,
                   const Machine& machine);

}  // namespace asyra
