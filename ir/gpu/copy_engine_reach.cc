#include "ir/gpu/copy_engine_reach.h"

#include <algorithm>

#include "ir/gpu/vector_bytes.h"

namespace asyra {
namespace {

// Returns the contiguous bytes that one device adds up at a time.
int64_t ReducedBytes(const OpCall& call, const Type& local_result,
                     const Mesh& mesh) {
  if (call.def.collective == CollectiveKind::kAllReduce) {
    // Each member reduces an equal part of the whole.
    int64_t members = mesh.size(call.attrs.Get<AxisList>("axes"));
    int64_t bytes = local_result.bytes();
    return bytes % members == 0 ? bytes / members : 1;
  }
  int64_t elements = 1;
  int dim = NormalizeDim(call.attrs.Int("dim"), local_result.rank());
  for (int d = dim; d < local_result.rank(); ++d) {
    elements *= local_result.size(d);
  }
  return elements * SizeOf(local_result.dtype);
}

}  // namespace

std::string ReachObstacle(const GroupReach& reach) {
  if (!reach.engines) return "the devices have no copy engines";
  if (!reach.one_host) return "its ranks are on several hosts";
  if (!reach.peer_access) return "the devices have no peer access";
  if (!reach.one_process && !reach.process_copies) {
    return "its ranks are processes that do not open each other's memory";
  }
  return "";
}

std::string CopyEngineObstacle(const OpCall& call, const Mesh& mesh,
                               const GroupReach& reach) {
  if (!CopyEnginesCanCarry(call, mesh)) return "no copy engine can carry it";
  return ReachObstacle(reach);
}

bool CopyEnginesCanCarry(const OpCall& call, const Mesh& mesh) {
  if (call.def.collective == CollectiveKind::kNone) return false;
  if (call.operands.size() != 1) return false;
  Type operand = call.operands[0].Local(mesh);
  Type result = call.results[0].Local(mesh);
  if (std::min(operand.num_elements(), result.num_elements()) == 0) {
    return false;
  }
  if (!Reduces(call.def.collective)) return true;
  return IsFloat(result.dtype) &&
         ReducedBytes(call, result, mesh) % kGpuVectorBytes == 0;
}

}  // namespace asyra
