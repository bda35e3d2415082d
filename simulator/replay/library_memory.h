// Device memory that a process uses besides the values of its program, and the
// capacity of a device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "simulator/machine/machine.h"

namespace asyra {

// The context of the process, its captured step, and the buffers of its
// communicators (LibraryMemory): one for each set of axes and number of CTAs,
// smaller with fewer CTAs. Collectives on copy engines need none.
int64_t LibraryBytes(const Program& program, const Machine& machine);

// Workspaces of kernels: for each stream that of the op with the largest.
// Counted are reductions by copy engine (chunks of the peers), packed chunks of
// the library's collectives (packing.h), matmuls (a scalar of the machine), and
// what ops themselves need (Work::scratch_bytes), but not convolutions and
// attention without gradient.
int64_t WorkspaceBytes(const Program& program, const Machine& machine);

// Returns the whole bytes of `gib`, which is at least 0; at least 1 unless it
// is 0, which means no limit.
int64_t GibBytes(double gib);
// Error: a limit that is no number, below 0, less than a byte but not 0, or
// beyond 2^53 bytes.
absl::Status CheckGib(double gib);

// The bytes of a device that a step may use in all, values, libraries and
// kernels together: `gib`, or the machine's memory if that is below 0. 0: no
// limit.
int64_t CapacityBytes(double gib, const Machine& machine);
// The same of an option. Errors: those of CheckGib.
absl::StatusOr<int64_t> ReadCapacity(double gib, const Machine& machine);
// Returns a capacity in GiB: below 0 if none was given.
double CapacityGib(const std::optional<int64_t>& capacity_bytes);

// Returns what remains of a capacity, at least 1; 0 (no limit) stays 0.
inline int64_t BytesLeft(int64_t capacity_bytes, int64_t taken_bytes) {
  if (capacity_bytes == 0) return 0;
  return std::max<int64_t>(1, capacity_bytes - taken_bytes);
}
// Returns what remains for the values of the program.
int64_t ValueBytes(int64_t capacity_bytes, const Program& program,
                   const Machine& machine);

}  // namespace asyra
