// What one use of an op costs on a machine when nothing runs beside it, and
// what it occupies meanwhile. Equations: simulator/README.md.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/machine.h"

namespace asyra {

// What ops that run at the same time share.
enum Resource { kSms, kHbm, kLink, kNetwork, kCopyEngines, kNumResources };
std::string_view ToString(Resource resource);

struct OpCost {
  // Where the estimate comes from, best first.
  enum Source : uint8_t { kMeasured, kInterpolated, kExtrapolated, kFormula };
  static constexpr int kNumSources = 4;
  // What the op would have to have more of to be faster.
  enum Limit : uint8_t {
    kNothing,    // it takes no time
    kLatency,    // the fixed part of a kernel or a collective
    kMath,       // arithmetic
    kMemory,     // bytes of device memory
    kLinkBytes,  // bytes over the links of the host
    kNetworkBytes,
  };

  double time_us = 0;    // on the device, alone
  double launch_us = 0;  // on the host, issued eagerly
  bool is_compute = false;
  int sms = 0;  // held by a collective
  // Fraction of each resource the op uses while it runs at full speed.
  std::array<double, kNumResources> load = {};
  // Of a collective: the speed it keeps beside computation that fills the SMs.
  double beside_compute = 1;
  Source source = kFormula;
  Limit limit = kNothing;

  // Views, waits and what is set up once before the first step.
  bool is_free() const { return time_us == 0 && launch_us == 0; }
};
std::string_view ToString(OpCost::Source source);
std::string_view ToString(OpCost::Limit limit);

// Where the members of a group live: `ranks` devices on `hosts` hosts, at
// least `per_host` of them on each.
struct GroupSpan {
  int64_t ranks = 1;
  int64_t hosts = 1;
  int64_t per_host = 1;
};

// Bytes on the busiest link over bytes of payload, as nccl-tests counts them.
double BusFactor(CollectiveKind kind, int64_t ranks);

// Copyable and const: one model may serve many threads.
class CostModel {
 public:
  CostModel(Machine machine, Mesh mesh);

  // `call` has distributed types.
  OpCost Cost(const OpCall& call) const;

  // `payload_bytes` is the size of nccl-tests: the whole buffer of an
  // all_gather (result) or reduce_scatter (operand), the buffer of an
  // all_reduce, what one rank sends of an all_to_all.
  double CollectiveUs(CollectiveKind kind, double payload_bytes,
                      const AxisList& axes) const;
  // A product is taken as one tile grid of unknown proportions.
  double ComputeUs(const Work& work, DType dtype) const;

  // The widest-spread group over `axes`. Devices are numbered with the last
  // mesh axis fastest; gpus_per_host consecutive ones share a host.
  GroupSpan SpanOf(const AxisList& axes) const;

  const Machine& machine() const { return machine_; }
  const Mesh& mesh() const { return mesh_; }

 private:
  struct Grid;
  OpCost ComputeCost(const Work& work, DType dtype, const Grid& grid,
                     double rate) const;
  OpCost CollectiveCost(CollectiveKind kind, double payload_bytes,
                        const AxisList& axes) const;
  double ProductUs(double flops, const Rate& rate, const Grid& grid) const;

  Machine machine_;
  Mesh mesh_;
};

// One cost per op of the program, in its order. Passes that only reorder a
// program carry them along and replay (simulator/replay.h).
std::vector<OpCost> PriceOps(const Program& program, const CostModel& costs);

// Refuses guesses: an error unless every op that takes time was measured or
// lies between measurements. Names the first op that was not, how many there
// are, and their share of the time of all ops alone.
absl::Status CheckMeasured(const Program& program,
                           absl::Span<const OpCost> prices);

// What is computed once, before the first step, and stays: constants.
bool IsSetUpOnce(const OpDef& def, size_t operand_count);

// Bytes that one device holds of a value.
int64_t LocalBytes(const Type& type, const Mesh& mesh);

}  // namespace asyra
