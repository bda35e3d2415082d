// The edges a replay respects besides the order of each stream.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

class Dependencies {
 public:
  explicit Dependencies(const Program& program);

  // Ops that end before `op` starts: those that define its operands and what
  // is in `after`. Ascending is not promised; ops come once per use.
  absl::Span<const int> DataOf(int op) const {
    return absl::MakeConstSpan(edges_).subspan(first_[op],
                                               data_end_[op] - first_[op]);
  }
  // The same, and before a collective the one over the same axes before it.
  absl::Span<const int> AllOf(int op) const {
    return absl::MakeConstSpan(edges_).subspan(first_[op],
                                               first_[op + 1] - first_[op]);
  }
  // Index into `communicators` of a collective, -1 for other ops.
  int CommunicatorOf(int op) const { return communicator_[op]; }
  // The distinct axes of collectives, in order of appearance.
  const std::vector<AxisList>& communicators() const { return communicators_; }

 private:
  std::vector<int> edges_;
  std::vector<int> first_, data_end_;  // offsets into edges_
  std::vector<int> communicator_;
  std::vector<AxisList> communicators_;
};

}  // namespace asyra
