// The values that share one buffer, and the op that keeps the operands of a
// start: the rule of memory planner, simulator and schedulers. verify_memory.cc
// does without it, as an independent check.
//
// A view is in the buffer of its operand, and so is a wait in that of its
// future. A result may be in that of an operand which it overwrites.
//
// Operands are in use until their op has ended; those of a `start` until the
// first wait for any of its futures has, which in program order is
// DefUse::FirstWait.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

// Follows a program, which outlives it.
class BufferMap {
 public:
  // Only views share a buffer with others.
  explicit BufferMap(const Program& program);
  // And so do results that overwrite an operand: by the offsets of both, or
  // else by `sums`, which is SummedInPlace (ir/accumulation.h) of the program.
  BufferMap(const Program& program, absl::Span<const ValueId> sums);

  // Adds ops in program order, each before a query about it.
  void Add(const Op& op);
  void AddAll();

  // The value that a value shares its buffer with, which has it first; itself
  // if that is its own.
  ValueId OwnerOf(ValueId value) const { return owner_[value]; }
  const std::vector<ValueId>& owners() const { return owner_; }
  // Returns the op that `wait` waits for; null for other ops.
  const Op* StartOf(const Op& wait) const {
    return wait.def->is_wait && !start_of_.empty() ? start_of_[wait.operands[0]]
                                                   : nullptr;
  }

 private:
  // The operand over which result number `r` is written, or kNoValue.
  ValueId Overwritten(const Op& op, size_t r) const;

  const Program& program_;
  const bool overwrites_;
  absl::Span<const ValueId> sums_;
  std::vector<ValueId> owner_;
  std::vector<const Op*> start_of_;  // by future; empty: there are none
};

}  // namespace asyra
