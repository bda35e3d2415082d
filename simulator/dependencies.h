// The edges a replay respects besides the order of each stream.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

// What ir/happens_before.h says of single ops, flat: an op waits for what
// defines its operands and its `after`. Operands that are neither of a start
// nor futures add nothing to that order in a program that verifies, as they
// come from the same stream or are awaited otherwise; they are listed since
// bounds look at the data alone. Nor does it change with the order of ops.
class Dependencies {
 public:
  explicit Dependencies(const Program& program);

  // Ops that end before `op` starts. Once per use, in no promised order.
  absl::Span<const int> AwaitedBy(int op) const {
    return Edges(first_[op], awaited_end_[op]);
  }
  // The same and the constants that it reads: all that is before it in any
  // order of the program.
  absl::Span<const int> DataOf(int op) const {
    return Edges(first_[op], first_[op + 1]);
  }
  // Index into `communicators` of a collective, -1 for other ops.
  int CommunicatorOf(int op) const { return communicator_[op]; }
  // The distinct axes of collectives, in order of appearance.
  const std::vector<AxisList>& communicators() const { return communicators_; }

 private:
  absl::Span<const int> Edges(int begin, int end) const {
    return absl::MakeConstSpan(edges_).subspan(begin, end - begin);
  }

  std::vector<int> edges_;
  std::vector<int> first_;        // by op, offsets into edges_
  std::vector<int> awaited_end_;  // by op, the same
  std::vector<int> communicator_;
  std::vector<AxisList> communicators_;
};

}  // namespace asyra
