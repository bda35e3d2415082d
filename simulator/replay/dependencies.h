// The edges a replay respects besides the order of each stream.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

// The edges of ir/happens_before.h for single ops: an op waits for the ops that
// define its operands and its `after`. In a verified program, operands that are
// neither of a start nor futures add no order, because they come from the same
// stream or are ordered otherwise; they are listed because bounds use the data
// dependences alone. The edges do not depend on the order of ops.
class Dependencies {
 public:
  explicit Dependencies(const Program& program);

  // Ops that end before `op` starts, once per use, in unspecified order.
  absl::Span<const int> AwaitedBy(int op) const {
    return Edges(first_[op], awaited_end_[op]);
  }
  // The same with the constants that it reads: the ops that precede it in every
  // legal order.
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
