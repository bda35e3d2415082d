// Orders a scheduled program so that the lanes of a tiled program hide each
// other's collectives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/schedule/order/order_search.h"

namespace asyra {

// Segmented round robin (ASYRA 3.3.2, Algorithm 1): a segment of a lane ends
// where the lane must wait; the open segments of the lanes are issued in turn.
// While one lane waits, the others compute, and at most one segment a lane is
// in flight, so operands die with their segment. Returns op indices.
std::vector<int> SegmentedRoundRobin(const Program& program);

// Returns program order.
std::vector<int> SerialOrder(const Program& program);

// Returns the naive baseline: an op of each lane in turn.
std::vector<int> OperatorRoundRobin(const Program& program);

// Returns "search", the best order found (order_search.h); "segrr" and
// "round_robin", the two above; "serial", in the order of the program.
std::vector<std::string> Schedulers();

// Returns the order that a scheduler gives a scheduled program. Errors: no
// scheduler of that name; "search" without costs, or if no order it finds fits
// the memory; the error names the least memory.
absl::StatusOr<std::vector<int>> OrderBy(std::string_view scheduler,
                                         const Program& program,
                                         const CostModel* costs,
                                         const OrderSearchOptions& search);

// Puts the program's ops in that order, which must be a permutation that keeps
// definitions before uses.
void ApplyOrder(Program& program, const std::vector<int>& order);

// The pass. Options: scheduler, and steps of the search.
absl::StatusOr<bool> Reorder(Program& program, const PassOptions& options,
                             PassContext& context);

}  // namespace asyra
