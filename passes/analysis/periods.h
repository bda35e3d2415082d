// Where a program repeats itself: a model's layers, found as runs of ops that
// are equal but for the values they read, whatever the values are called.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

class Periods {
 public:
  // `classes` by op: equal numbers for ops that are the same but for their
  // values. Both must outlive it.
  Periods(const Program& program, absl::Span<const int> classes);

  // Distances, in ops, at which much of the program repeats; the most frequent
  // first, few.
  const std::vector<int>& all() const { return periods_; }

  // How many ops from `begin` on repeat, each, the one `all()[p]` before:
  // of the same class, and reading what corresponds.
  int RunFrom(int begin, int p) const { return runs_[p][begin]; }

  // What corresponds to `value`, live at op `boundary`, one period later: by
  // the next use of it, which must be before boundary + period, or by the last
  // def or use, not before boundary - period. Itself where there is none.
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
