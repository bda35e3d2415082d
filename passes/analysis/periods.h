// The periods of a program: a model's layers, found as runs of ops that are
// equal except for the values they read, independent of names.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

class Periods {
 public:
  // `classes` by op: equal numbers for ops that are equal except for the values
  // they read. Both must outlive it.
  Periods(const Program& program, absl::Span<const int> classes);

  // Returns distances, in ops, at which much of the program repeats; the most
  // frequent first, few.
  const std::vector<int>& all() const { return periods_; }

  // Returns how many ops from `begin` on each repeat the op `all()[p]` before:
  // of the same class, and reading the corresponding values.
  int RunFrom(int begin, int p) const { return runs_[p][begin]; }

  // Returns the value that corresponds to `value`, live at op `boundary`, one
  // period later: by its next use, which must be before boundary + period, or
  // by the last def or use, not before boundary - period. `value` itself if
  // there is none.
  ValueId ShiftedByNext(ValueId value, int boundary, int p) const;
  ValueId ShiftedByLast(ValueId value, int boundary, int p) const;

 private:
  // A place where an op defines (slot < 0) or reads a value.
  struct Touch {
    int op;
    int slot;
  };
  bool Same(int i, int period) const;
  bool SameLink(int i, size_t slot, int period) const;
  const Touch* Before(ValueId value, int op, int slot) const;
  ValueId At(const Touch& touch, int shift) const;
  void FindPeriods();

  const Program& program_;
  absl::Span<const int> classes_;
  std::vector<std::vector<Touch>> touches_;  // by value, in order
  std::vector<bool> is_output_;              // by value
  std::vector<int> periods_;
  std::vector<std::vector<int>> runs_;  // by period, by op
};

}  // namespace asyra
