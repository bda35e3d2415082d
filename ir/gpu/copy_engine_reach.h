// The one rule that passes, costs and executors go by: what copy engines of
// GPUs can carry, and between which of them. How the devices of a group reach
// each other is told by the machine's description
// (simulator/cost/collective_cost.h) before a program runs, and by the ranks
// (Communicator::CopyEngineObstacle) when it does.
#pragma once

#include <string>

#include "ir/op_def.h"

namespace asyra {

// Returns whether copy engines can carry `call`, which has distributed types: a
// collective of one value that is not empty. Reductions are of floats, and each
// device adds up parts of a multiple of kGpuVectorBytes
// (ir/gpu/vector_bytes.h).
bool CopyEnginesCanCarry(const OpCall& call, const Mesh& mesh);

// The means by which the devices of a group reach each other.
struct GroupReach {
  bool engines = true;      // the devices have copy engines
  bool one_host = true;     // all of them are on it
  bool peer_access = true;  // each reaches the memory of the others
  bool one_process = true;  // their ranks are threads of it
  // Processes of a host can open each other's device memory.
  bool process_copies = false;
};

// Why copy engines do not connect such a group, in words; empty if they do.
std::string ReachObstacle(const GroupReach& reach);
// Why they do not carry `call` in such a group; empty if they do where it asks
// for them.
std::string CopyEngineObstacle(const OpCall& call, const Mesh& mesh,
                               const GroupReach& reach);

}  // namespace asyra
