// A program with everything that its replays share, so that a search that only
// reorders ops computes it once.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ir/accumulation.h"
#include "ir/program.h"
#include "simulator/cost_model.h"
#include "simulator/dependencies.h"

namespace asyra {

class CostedProgram {
 public:
  // The program is kept and must outlive this, unchanged.
  CostedProgram(const Program& program, std::vector<OpCost> op_costs)
      : program_(program),
        op_costs_(std::move(op_costs)),
        dependencies_(std::make_shared<const Dependencies>(program)),
        summed_in_place_(std::make_shared<const std::vector<ValueId>>(
            SummedInPlace(program))) {}
  CostedProgram(const Program& program, const CostModel& costs)
      : CostedProgram(program, EstimateCosts(program, costs)) {}
  // The same program at other costs.
  CostedProgram(const CostedProgram& same, std::vector<OpCost> op_costs)
      : program_(same.program_),
        op_costs_(std::move(op_costs)),
        dependencies_(same.dependencies_),
        summed_in_place_(same.summed_in_place_) {}

  const Program& program() const { return program_; }
  absl::Span<const OpCost> op_costs() const { return op_costs_; }
  const Dependencies& dependencies() const { return *dependencies_; }
  // As SummedInPlace (ir/accumulation.h).
  absl::Span<const ValueId> summed_in_place() const {
    return *summed_in_place_;
  }
  // Leaves this without any.
  std::vector<OpCost> TakeCosts() { return std::move(op_costs_); }

 private:
  const Program& program_;
  std::vector<OpCost> op_costs_;
  // Of the program alone.
  std::shared_ptr<const Dependencies> dependencies_;
  std::shared_ptr<const std::vector<ValueId>> summed_in_place_;
};

}  // namespace asyra
