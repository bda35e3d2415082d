// Accesses of a generated kernel to the memory of other GPUs, the members of a
// group that run the same kernel: one operand is the sum over all members, and
// results may be written to all of them.
//
// Members pass two barriers. Nobody reads or writes the memory of others before
// all have begun, for what is read was made by the kernels before; and nobody
// ends before all have done their part. The flags of a member are, in its own
// memory,
//
//   begun[members], done[members]   set by each of the others, cleared here
//   blocks                          of this kernel that have ended
//
// so that a launch leaves them as it found them. A begun member sets a flag
// again only after all are done. Blocks wait for nothing but the other
// members' first block, and the last to end for their last ones: they need not
// be on the GPU all at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asyra::cuda {

struct PeerCode {
  int members = 1;
  int summed = 0;              // operand, the sum of those of all members
  std::vector<bool> gathered;  // by result: written to all members
};

// Flags that a member needs.
inline int64_t PeerFlagCount(int members) { return 2 * members + 1; }

// Returns the functions of the two barriers, in CUDA C++, over the arguments
// below.
std::string PeerPrelude(const PeerCode& peers);
// Returns the arguments of the kernel behind all others: "unsigned* flags0,
// ..., int self, const unsigned* aborted". Flags are by member, as this GPU
// reaches them; waiting ends once `aborted` is set.
std::string PeerArguments(const PeerCode& peers);
// Give the code of the barriers in the kernel. All threads of a block run it.
std::string MeetAtBegin(const PeerCode& peers);
std::string MeetAtEnd();

}  // namespace asyra::cuda
