// The time of one use of an op on a machine when it runs alone, and the
// resources it uses. Equations: simulator/README.md.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/cost/collective_cost.h"
#include "simulator/cost/cost_table.h"
#include "simulator/machine/machine.h"

namespace asyra {

// Resources that concurrent ops share.
enum Resource {
  kSms,
  kHbm,
  kLink,
  kNetwork,
  kCopyEngines,
  kCtaSlots,  // CTA slots
  kNumResources
};
std::string_view ToString(Resource resource);

struct OpCost {
  // The source of the estimate, best first.
  enum Source : uint8_t { kMeasured, kInterpolated, kExtrapolated, kFormula };
  static constexpr int kNumSources = 4;
  // The resource that limits the op.
  enum Limit : uint8_t {
    kNothing,    // it takes no time
    kLatency,    // the fixed part of a kernel or a collective
    kMath,       // arithmetic
    kMemory,     // bytes of device memory
    kLinkBytes,  // bytes over the links of the host
    kNetworkBytes,
  };

  double time_us = 0;    // on the device, alone
  double launch_us = 0;  // on the host
  bool is_compute = false;
  int sms = 0;  // held by a collective
  // The SMs held while its kernel runs, as a fraction of the GPU's: its CTAs',
  // or what the sums of copy engines take.
  double held_sms = 0;
  double waves = 0;         // ComputeEstimate::waves
  bool persistent = false;  // holds its SMs until it is done
  double sm_margin = 0;     // fraction of the SMs that it leaves to others
  double kernel_start_fraction = 0;  // of a collective: CollectiveEstimate
  double required_sms = 0;  // of a collective: fraction that its kernel needs
  // Fraction of each resource the op uses while it runs at full speed. SMs that
  // a collective holds are not included: they are not shared.
  std::array<double, kNumResources> load = {};
  // The fraction of a collective's speed next to computation that uses all SMs.
  double beside_compute = 1;
  // The value of Machine::beside_copies for a collective by copy engines.
  double math_beside = 1;
  Algorithm algorithm = Algorithm::kNone;  // of a collective
  int protocol = -1;                       // of machine.protocols
  Source source = kFormula;
  Limit limit = kNothing;

  // Views, waits and constants.
  bool is_free() const { return time_us == 0 && launch_us == 0; }
};
std::string_view ToString(OpCost::Source source);
std::string_view ToString(OpCost::Limit limit);

struct CostOptions {
  bool graph_launch = false;  // ops are issued as a captured graph
  // Machine::ranks_are_processes of the model's machine.
  bool ranks_are_processes = false;
};

class CostMemo;

// Copyable and const: one model may serve many threads.
class CostModel {
 public:
  CostModel(Machine machine, Mesh mesh, CostOptions options = {});
  // The same over another mesh.
  CostModel Over(Mesh mesh) const;

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
  // A matmul of unknown proportions counts as one grid of tiles.
  double ComputeUs(const Work& work, DType dtype) const;

  GroupSpan SpanOf(const AxisList& axes) const {
    return asyra::SpanOf(mesh_, axes, machine_.gpus_per_host);
  }

  const Machine& machine() const { return machine_; }
  const Mesh& mesh() const { return mesh_; }

 private:
  OpCost ComputeCost(const Work& work, DType dtype, const Type& result) const;
  OpCost CollectiveCost(CollectiveKind kind, double payload_bytes,
                        const AxisList& axes, const CollectiveForm& form) const;
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
  std::shared_ptr<CostMemo> memo_;  // shared with copies, which are equal
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
