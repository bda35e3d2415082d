// A program with everything that its replays share, so that a search that only
// reorders ops computes it once.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ir/accumulation.h"
#include "ir/program.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/dependencies.h"

namespace asyra {

// The values that a replay reads of an op, side by side: ops and their costs
// are large, and a search reads all of them at each step.
struct ReplayOp {
  double time_us = 0;
  double launch_us = 0;
  double kernel_start_fraction = 0;
  StreamId stream = kNoStream;
  int communicator = -1;  // Dependencies::CommunicatorOf
  bool is_compute = false;
  bool is_wait = false;
};

class CostedProgram {
 public:
  // The program is kept and must outlive this, unchanged.
  CostedProgram(const Program& program, std::vector<OpCost> op_costs)
      : program_(program),
        op_costs_(std::move(op_costs)),
        dependencies_(std::make_shared<const Dependencies>(program)),
        summed_in_place_(std::make_shared<const std::vector<ValueId>>(
            SummedInPlace(program))),
        replay_ops_(ReplayOps()) {}
  CostedProgram(const Program& program, const CostModel& costs)
      : CostedProgram(program, EstimateCosts(program, costs)) {
    clock_mhz_ = costs.clock_mhz();
    if (clock_mhz_ > 0) power_ = costs.machine().gpu.power;
  }
  // The same program at other costs.
  CostedProgram(const CostedProgram& same, std::vector<OpCost> op_costs)
      : program_(same.program_),
        op_costs_(std::move(op_costs)),
        dependencies_(same.dependencies_),
        summed_in_place_(same.summed_in_place_),
        replay_ops_(ReplayOps()) {}

  const Program& program() const { return program_; }
  absl::Span<const OpCost> op_costs() const { return op_costs_; }
  // By op.
  absl::Span<const ReplayOp> replay_ops() const { return replay_ops_; }
  // The clock of the costs, and the power of the machine; 0: they have none.
  double clock_mhz() const { return clock_mhz_; }
  const GpuPower& power() const { return *power_; }
  const Dependencies& dependencies() const { return *dependencies_; }
  // Returns the values of SummedInPlace (ir/accumulation.h).
  absl::Span<const ValueId> summed_in_place() const {
    return *summed_in_place_;
  }
  // Leaves this without any.
  std::vector<OpCost> TakeCosts() { return std::move(op_costs_); }

 private:
  std::vector<ReplayOp> ReplayOps() const {
    std::vector<ReplayOp> ops;
    ops.reserve(op_costs_.size());
    for (size_t i = 0; i < op_costs_.size(); ++i) {
      const OpCost& cost = op_costs_[i];
      ops.push_back({cost.time_us, cost.launch_us, cost.kernel_start_fraction,
                     program_.ops[i].stream,
                     dependencies_->CommunicatorOf(static_cast<int>(i)),
                     cost.is_compute, program_.ops[i].def->is_wait});
    }
    return ops;
  }

  const Program& program_;
  std::vector<OpCost> op_costs_;
  // Facts about the program alone.
  std::shared_ptr<const Dependencies> dependencies_;
  std::shared_ptr<const std::vector<ValueId>> summed_in_place_;
  std::vector<ReplayOp> replay_ops_;
  double clock_mhz_ = 0;
  std::optional<GpuPower> power_;
};

}  // namespace asyra
