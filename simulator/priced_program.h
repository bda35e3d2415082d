// A program with all that its replays have in common, so that a search that
// only reorders ops pays for it once.
#pragma once

#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"
#include "simulator/cost_model.h"
#include "simulator/dependencies.h"

namespace asyra {

class PricedProgram {
 public:
  // The program is kept and must outlive this, unchanged.
  PricedProgram(const Program& program, std::vector<OpCost> prices)
      : program_(program), prices_(std::move(prices)), dependencies_(program) {}
  PricedProgram(const Program& program, const CostModel& costs)
      : PricedProgram(program, PriceOps(program, costs)) {}
  // The same program at other prices.
  PricedProgram(const PricedProgram& same, std::vector<OpCost> prices)
      : program_(same.program_),
        prices_(std::move(prices)),
        dependencies_(same.dependencies_) {}

  const Program& program() const { return program_; }
  absl::Span<const OpCost> prices() const { return prices_; }
  const Dependencies& dependencies() const { return dependencies_; }
  // Leaves this without any.
  std::vector<OpCost> TakePrices() { return std::move(prices_); }

 private:
  const Program& program_;
  std::vector<OpCost> prices_;
  Dependencies dependencies_;
};

}  // namespace asyra
