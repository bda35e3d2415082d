// The time of one use of an op on a machine when it runs alone, and the
// resources it uses. Equations: simulator/README.md.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/cost/collective_cost.h"
#include "simulator/cost/cost_table.h"
#include "simulator/cost/op_cost.h"
#include "simulator/machine/machine.h"

namespace asyra {

struct CostOptions {
  bool graph_launch = false;  // ops are issued as a captured graph
  // Machine::ranks_are_processes of the model's machine.
  bool ranks_are_processes = false;
};

class CostMemo;
class ExchangeTraffic;

// Copyable and const: one model may serve many threads.
class CostModel {
 public:
  CostModel(Machine machine, Mesh mesh, CostOptions options = {});
  // The same over another mesh.
  CostModel Over(Mesh mesh) const;
  // The same at this clock: Simulate then looks for no other. 0, or on a
  // machine whose power is not known: at the clocks of measurements.
  CostModel AtClock(double mhz) const;

  // `call` has distributed types. The formula times the factor of the machine's
  // table. A matmul with an sm_margin takes longer.
  OpCost Cost(const OpCall& call) const;
  // The same for an op of a program, remembered for equal uses in any program:
  // layers repeat, and a search estimates almost the same program many times.
  OpCost RememberedCost(const Program& program, const Op& op) const;
  // The uncached lookup in the table, which takes time.
  CostKey KeyOf(const OpCall& call) const;
  // Returns what was measured of calls like this one, over their times by
  // formula; 1 if nothing near it was.
  double MeasuredFactor(const OpCall& call) const;

  // `payload_bytes` as EstimateCollective takes it.
  double CollectiveUs(CollectiveKind kind, double payload_bytes,
                      const AxisList& axes) const;
  // An exchange of messages by the library in groups over these axes. `ctas`:
  // 0: as many as the library takes.
  OpCost ExchangeCost(const ExchangeTraffic& traffic, const AxisList& axes,
                      int ctas) const;
  // A matmul of unknown proportions counts as one grid of tiles.
  double ComputeUs(const Work& work, DType dtype) const;

  GroupSpan SpanOf(const AxisList& axes) const {
    return asyra::SpanOf(mesh_, axes, machine_.gpus_per_host);
  }

  const Machine& machine() const { return machine_; }
  // 0: the clocks at which costs were measured.
  double clock_mhz() const { return clock_mhz_; }
  const Mesh& mesh() const { return mesh_; }

 private:
  // At the clock of measurements.
  OpCost MeasuredCost(const OpCall& call) const;
  OpCost AtItsClock(OpCost cost) const;
  OpCost ComputeCost(const Work& work, DType dtype, const Type& result) const;
  OpCost CollectiveCost(CollectiveKind kind, double payload_bytes,
                        const GroupSpan& span,
                        const CollectiveForm& form) const;
  // Messages of which each rank sends and receives at most `bytes`: to the rank
  // `shift` places away, or, 0, to all.
  OpCost MessagesCost(double bytes, const GroupSpan& span, int64_t shift,
                      int ctas) const;
  double LaunchUs() const {
    return options_.graph_launch ? machine_.graph_launch_us
                                 : machine_.launch_us;
  }
  double PayloadOf(const OpCall& call) const;
  // Returns how a collective is carried: by copy engines if it asks for them
  // and they can.
  CollectiveForm FormOf(const OpCall& call) const;
  void Correct(const CostKey& key, OpCost* cost) const;
  // Adds the packing of a collective that the library carries.
  void AddPacking(const OpCall& call, OpCost* cost) const;

  Machine machine_;
  Mesh mesh_;
  CostOptions options_;
  double clock_mhz_ = 0;
  // Shared with copies, which are equal but for clocks: it holds costs at
  // those of measurements.
  std::shared_ptr<CostMemo> memo_;
};

// One cost per op of the program, in its order. Passes that only reorder a
// program carry them along and replay (simulator/replay/replay.h).
std::vector<OpCost> EstimateCosts(const Program& program,
                                  const CostModel& costs);

// An error unless the cost of every op that takes time is measured or
// interpolated. It names the first other op, the number of such ops, and their
// share of the time of all ops alone.
absl::Status CheckMeasured(const Program& program,
                           absl::Span<const OpCost> op_costs);

// Payload of a collective: the bytes of all operands or all results of a
// device, whichever is more.
int64_t PayloadBytes(const Program& program, const Op& op);

}  // namespace asyra
