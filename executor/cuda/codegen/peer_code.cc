#include "executor/cuda/codegen/peer_code.h"

#include "fmt/format.h"

namespace asyra::cuda {
namespace {

// Signals come after the stores and loads that precede them in the block's
// order.
constexpr char kSignals[] = R"(
__device__ void Raise(unsigned* flag) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(1)
               : "memory");
}
__device__ void Await(unsigned* flag, const unsigned* aborted) {
  unsigned is_set = 0, is_over = 0;
  while (is_set == 0 && is_over == 0) {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                 : "=r"(is_set) : "l"(flag) : "memory");
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];"
                 : "=r"(is_over) : "l"(aborted) : "memory");
  }
}
// The first block tells the others; all wait for them.
__device__ void MeetAtBegin(unsigned* const* flags, int self,
                            const unsigned* aborted) {
  const int member = threadIdx.x;
  if (member < kMembers && member != self) {
    if (blockIdx.x == 0) Raise(flags[member] + self);
    Await(flags[self] + member, aborted);
  }
  __syncthreads();
}
// The last block to end clears the flags of the begin, which all have seen, and
// meets the others.
__device__ void MeetAtEnd(unsigned* const* flags, int self,
                          const unsigned* aborted) {
  __shared__ bool is_last;
  __syncthreads();
  unsigned* blocks = flags[self] + 2 * kMembers;
  if (threadIdx.x == 0) {
    __threadfence_system();
    is_last = atomicAdd(blocks, 1u) == gridDim.x - 1;
    __threadfence_system();
  }
  __syncthreads();
  if (!is_last) return;
  const int member = threadIdx.x;
  if (member == self) *blocks = 0;
  if (member >= kMembers || member == self) return;
  flags[self][member] = 0;
  Raise(flags[member] + kMembers + self);
  Await(flags[self] + kMembers + member, aborted);
  flags[self][kMembers + member] = 0;
}
)";

}  // namespace

std::string PeerPrelude(const PeerCode& peers) {
  return fmt::format("enum {{ kMembers = {} }};\n", peers.members) + kSignals;
}

std::string PeerArguments(const PeerCode& peers) {
  std::string arguments;
  for (int member = 0; member < peers.members; ++member) {
    arguments += fmt::format("unsigned* flags{}, ", member);
  }
  return arguments + "int self, const unsigned* aborted";
}

std::string MeetAtBegin(const PeerCode& peers) {
  std::string all;
  for (int member = 0; member < peers.members; ++member) {
    all += fmt::format("{}flags{}", member == 0 ? "" : ", ", member);
  }
  return fmt::format(
      "  unsigned* const flags[] = {{{}}};\n"
      "  MeetAtBegin(flags, self, aborted);\n",
      all);
}

std::string MeetAtEnd() { return "  MeetAtEnd(flags, self, aborted);\n"; }

}  // namespace asyra::cuda
