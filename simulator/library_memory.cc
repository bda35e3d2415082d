#include "simulator/library_memory.h"

#include <algorithm>
#include <map>
#include <vector>

#include "simulator/collective_cost.h"
#include "simulator/cost_model.h"
#include "simulator/dependencies.h"

namespace asyra {
namespace {

GroupSpan SpanOf(const Program& program, const Op& op, const Machine& machine) {
  return SpanOf(program.mesh, op.attrs.Get<AxisList>("axes"),
                machine.gpus_per_host);
}

bool IsCopied(const Program& program, const Op& op, const Machine& machine) {
  return op.is_collective() && AsksForCopies(op.attrs) &&
         CanCopy(machine, SpanOf(program, op, machine));
}

}  // namespace

int64_t LibraryBytes(const Program& program, const Machine& machine) {
  Dependencies dependencies(program);
  // By communicator and thread blocks: the peers it exchanges blocks with.
  std::map<std::pair<int, int64_t>, int64_t> communicators;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (!op.is_collective() || IsCopied(program, op, machine)) continue;
    int64_t& peers =
        communicators[{dependencies.CommunicatorOf(static_cast<int>(i)),
                       op.attrs.Int("ctas")}];
    if (op.def->collective == CollectiveKind::kAllToAll) {
      peers = SpanOf(program, op, machine).ranks - 1;
    }
  }
  const Gpu& gpu = machine.gpu;
  double mib = gpu.context_mib;
  if (!communicators.empty()) mib += gpu.collectives_mib;
  for (auto [communicator, peers] : communicators) {
    mib += gpu.communicator_mib + gpu.exchange_mib * static_cast<double>(peers);
  }
  constexpr double kMiB = 1 << 20;
  return static_cast<int64_t>(mib * kMiB);
}

int64_t WorkspaceBytes(const Program& program, const Machine& machine) {
  std::map<int, int64_t> most;  // by stream
  for (const Op& op : program.ops) {
    bool sums = op.def->collective == CollectiveKind::kAllReduce ||
                op.def->collective == CollectiveKind::kReduceScatter;
    if (!sums || !IsCopied(program, op, machine)) continue;
    int64_t ranks = SpanOf(program, op, machine).ranks, bytes = 0;
    for (ValueId operand : op.operands) {
      bytes += LocalBytes(program.type(operand), program.mesh);
    }
    int64_t& stream = most[op.stream];
    stream = std::max(stream, bytes / ranks * (ranks - 1));
  }
  int64_t sum = 0;
  for (auto [stream, bytes] : most) sum += bytes;
  return sum;
}

}  // namespace asyra
