// The order of a program after some ops have become one, when tiles are merged
// or collectives joined: the old order, as far as dependences allow.
#pragma once

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

// Every op of a program is in one group; op indices.
struct OpGroups {
  std::vector<std::vector<int>> ops;  // by group
  std::vector<int> group_of;          // by op
  // By group: whether its ops may read each other's results, as those of a sum
  // do. Empty: of none.
  std::vector<bool> sums;
};

// Returns the groups in topological order of operands and `after`: of the ready
// ones always the one of the least place, then of the least number. `places`
// are by group. None if groups wait for each other.
std::optional<std::vector<int>> GroupOrder(const Program& program,
                                           const DefUse& uses,
                                           const OpGroups& groups,
                                           absl::Span<const int> places);

}  // namespace asyra
