// The order of a program in which some ops have become one, as when tiles are
// merged or collectives joined: the old order, as far as dependences let it.
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
};

// The groups in such an order that each comes after those whose results its ops
// read or wait for (operands and `after`): of those that could be next always
// the one of the least place, then of the least number. `places` are by group.
// None where groups wait for each other.
std::optional<std::vector<int>> GroupOrder(const Program& program,
                                           const DefUse& uses,
                                           const OpGroups& groups,
                                           absl::Span<const int> places);

}  // namespace asyra
