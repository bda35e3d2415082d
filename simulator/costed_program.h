// A program with everything that its replays share, so that a search that only
// reorders ops computes it once.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
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
        dependencies_(std::make_shared<const Dependencies>(program)) {}
  CostedProgram(const Program& program, const CostModel& costs)
      : CostedProgram(program, EstimateCosts(program, costs)) {}
  // The same program at other costs.
  CostedProgram(const CostedProgram& same, std::vector<OpCost> op_costs)
      : program_(same.program_),
        op_costs_(std::move(op_costs)),
        dependencies_(same.dependencies_) {}

  const Program& program() const { return program_; }
  absl::Span<const OpCost> op_costs() const { return op_costs_; }
  const Dependencies& dependencies() const { return *dependencies_; }
  // Leaves this without any.
  std::vector<OpCost> TakeCosts() { return std::move(op_costs_); }

 private:
  const Program& program_;
  std::vector<OpCost> op_costs_;
  std::shared_ptr<const Dependencies> dependencies_;  // of the program alone
};

}  // namespace asyra
