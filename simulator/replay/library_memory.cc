#include "simulator/replay/library_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "ir/copy_engine.h"
#include "ir/identical_ops.h"
#include "ir/overlap.h"
#include "ir/plans/overlap_shape.h"
#include "ir/support/status.h"
#include "simulator/cost/collective_cost.h"
#include "simulator/cost/cost_model.h"
#include "simulator/cost/packing.h"
#include "simulator/replay/dependencies.h"

namespace asyra {
namespace {

constexpr double kMiB = 1 << 20, kGib = 1 << 30;
constexpr double kMostBytes = int64_t{1} << 53;  // doubles have all below

GroupSpan SpanOf(const Program& program, const Op& op, const Machine& machine) {
  return SpanOf(program.mesh, op.attrs.Get<AxisList>("axes"),
                machine.gpus_per_host);
}

bool UsesCopyEngine(const Program& program, const Op& op,
                    const Machine& machine) {
  return op.is_collective() && AsksForCopyEngine(op.attrs) &&
         CanUseCopyEngine(machine, OpUse(program, op), program.mesh);
}

int64_t CopyEngineSumBytes(const Program& program, const Op& op,
                           const Machine& machine) {
  if (!Reduces(op.def->collective)) return 0;
  int64_t ranks = SpanOf(program, op, machine).ranks, bytes = 0;
  for (ValueId operand : op.operands) {
    bytes += LocalBytes(program.type(operand), program.mesh);
  }
  return bytes / ranks * (ranks - 1);
}

int64_t PackedBytes(const Program& program, const Op& op) {
  int64_t sum = 0;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    Type operand = program.type(op.operands[i]).Local(program.mesh);
    Type result = program.type(op.results[i]).Local(program.mesh);
    Packing packing = PackingOf(*op.def, op.attrs, operand, result);
    sum += packing.before + packing.after;
  }
  return sum;
}

int64_t WorkspaceOf(const Program& program, const Op& op,
                    const Machine& machine) {
  if (op.is_collective()) {
    return UsesCopyEngine(program, op, machine)
               ? CopyEngineSumBytes(program, op, machine)
               : PackedBytes(program, op);
  }
  Work work = WorkOf(OpUse(program, op), program.mesh);
  double library = work.matrix ? machine.gpu.library_mib.workspace * kMiB : 0;
  return static_cast<int64_t>(std::max(library, work.scratch_bytes));
}

// The connections of a communicator.
struct Connections {
  bool rings = false, trees = false;
  int64_t peers = 0;  // peers that exchange chunks with it
};

// By communicator and number of CTAs.
using Communicators = std::map<std::pair<int, int64_t>, Connections>;

Communicators CommunicatorsOf(const Program& program, const Machine& machine) {
  Dependencies dependencies(program);
  Communicators communicators;
  std::map<AxisList, int> of_plans;  // by axes, negative: no collective's
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (ExchangesMessages(*op.def, op.attrs)) {
      AxisList axes = AxesOf(*BodyOf(op.attrs));
      int next = -1 - static_cast<int>(of_plans.size());
      int id = of_plans.try_emplace(axes, next).first->second;
      communicators[{id, SmMargin(op.attrs)}].peers =
          SpanOf(program.mesh, axes, machine.gpus_per_host).ranks - 1;
    }
    if (!op.is_collective() || UsesCopyEngine(program, op, machine)) continue;
    Connections& connections =
        communicators[{dependencies.CommunicatorOf(static_cast<int>(i)),
                       op.attrs.Int("ctas")}];
    if (op.def->collective == CollectiveKind::kAllToAll) {
      connections.peers = SpanOf(program, op, machine).ranks - 1;
    } else if (op.def->collective == CollectiveKind::kShift) {
      connections.peers = std::max<int64_t>(connections.peers, 2);
    } else {
      connections.rings = true;
    }
    if (op.def->collective == CollectiveKind::kAllReduce) {
      connections.trees = true;
    }
  }
  return communicators;
}

// Buffers belong to channels, one for each CTA: the share of a communicator
// with the library's number.
double PartOf(int64_t ctas, const Machine& machine) {
  int most = 1;
  for (auto& [kind, params] : machine.collectives) {
    most = std::max(most, params.ctas);
  }
  return ctas == 0 ? 1 : std::min(1.0, static_cast<double>(ctas) / most);
}

}  // namespace

int64_t LibraryBytes(const Program& program, const Machine& machine) {
  const LibraryMemory& library = machine.gpu.library_mib;
  Communicators communicators = CommunicatorsOf(program, machine);
  double mib =
      library.context + library.op * static_cast<double>(program.ops.size());
  if (!communicators.empty()) mib += library.collectives;
  bool exchanges = false;
  for (auto& [key, connections] : communicators) {
    exchanges |= connections.peers > 0;
    mib += PartOf(key.second, machine) *
           (library.communicator + (connections.rings ? library.rings : 0) +
            (connections.trees ? library.trees : 0) +
            library.peer * static_cast<double>(connections.peers));
  }
  if (exchanges) mib += library.exchanges;
  return static_cast<int64_t>(mib * kMiB);
}

int64_t WorkspaceBytes(const Program& program, const Machine& machine) {
  std::map<int, int64_t> most;  // by stream
  IdenticalOps identical(program);
  for (int i = 0; i < static_cast<int>(program.ops.size()); ++i) {
    if (identical.FirstIdentical(i) != i) continue;
    const Op& op = program.ops[i];
    int64_t& stream = most[op.stream];
    stream = std::max(stream, WorkspaceOf(program, op, machine));
  }
  int64_t sum = 0;
  for (auto [stream, bytes] : most) sum += bytes;
  return sum;
}

int64_t GibBytes(double gib) {
  if (gib == 0) return 0;
  return static_cast<int64_t>(std::clamp(gib * kGib, 1.0, kMostBytes));
}

absl::Status CheckGib(double gib) {
  if (!(gib >= 0) || std::isinf(gib)) {
    return Invalid("{} is no number of GiB of at least 0", gib);
  }
  if (gib > 0 && gib * kGib < 1) {
    return Invalid("{} GiB is less than a byte; 0 means no limit", gib);
  }
  if (gib * kGib <= kMostBytes) return absl::OkStatus();
  return Invalid("{} GiB is more than {} bytes; 0 means no limit", gib,
                 static_cast<int64_t>(kMostBytes));
}

int64_t CapacityBytes(double gib, const Machine& machine) {
  return GibBytes(gib < 0 ? machine.gpu.hbm_gib : gib);
}

absl::StatusOr<int64_t> ReadCapacity(double gib, const Machine& machine) {
  if (!(gib < 0)) ASYRA_RETURN_IF_ERROR(CheckGib(gib));
  return CapacityBytes(gib, machine);
}

double CapacityGib(const std::optional<int64_t>& capacity_bytes) {
  return capacity_bytes.has_value()
             ? static_cast<double>(*capacity_bytes) / (1 << 30)
             : -1;
}

int64_t ValueBytes(int64_t capacity_bytes, const Program& program,
                   const Machine& machine) {
  return BytesLeft(capacity_bytes, LibraryBytes(program, machine) +
                                       WorkspaceBytes(program, machine));
}

}  // namespace asyra
