// Chains of light ops between two collectives, which may run on a second
// compute stream.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"

namespace asyra {

// Ops of one compute stream that move together, ascending; the first is a
// wait, and some of them are read by a `start`.
struct SideChain {
  std::vector<int> ops;
  // Equal for chains of equal ops and types.
  std::string signature;
};

// Returns, by op, whether it contains no matmul.
std::vector<bool> OpsWithoutMatmuls(const Program& program);

// Returns the chains of `light` ops (by op) on the main compute stream
// (ir/streams.h) of a scheduled program. No two share an op.
std::vector<SideChain> FindSideChains(const Program& program,
                                      const std::vector<bool>& light);

// Returns the program with the ops of these chains on another stream; reads
// across streams are ordered by `after`.
Program MoveToStream(const Program& program,
                     const std::vector<SideChain>& chains,
                     std::string_view stream);

}  // namespace asyra
