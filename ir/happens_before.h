// The order of the ops of a scheduled program: those that have finished before
// others begin, on every execution. The one definition of order between
// streams: the verifier and the memory planner check against it, the executor
// enforces it with events, and the simulator replays the same edges.
//
// An op begins when these have finished:
//   the op before it on its stream;
//   the ops that define the operands of a `start`, on any stream (a fork);
//   the `start` whose future it waits for (a join);
//   the ops that define the values of its `after`.
// Reading an operand on another stream is no edge: it must be ordered by one
// of the above. Ops without a stream run in program order, as on one stream.
//
// Every op has a position on its stream, also those that run no kernel in a
// step: views, and constants (IsSetUpOnce), which are computed before the first
// step. Coming after one of them means coming after all ops before it on its
// stream. The value of a constant is always available: reading it needs no
// order.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

inline bool IsConstant(const Op& op) {
  return IsSetUpOnce(*op.def, op.operands.size());
}

// Cost: one integer per op and stream, not per pair of ops.
class HappensBefore {
 public:
  // Values are defined before use.
  HappensBefore(const Program& program, const DefUse& def_use);

  // Op `a` has finished before op `b` begins: its stream has passed its
  // position. False for a == b. -1 is the beginning of the program, where the
  // inputs are available.
  bool Finished(int a, int b) const;
  // The results of op `a` are available before op `b` begins.
  bool Computed(int a, int b) const {
    return a >= 0 && is_constant_[a] ? b >= 0 : Finished(a, b);
  }

  // The latest of several ops on each stream: a query about all of them costs
  // as much as one about a single op.
  class Frontier {
   public:
    // An empty one, which everything comes after.
    explicit Frontier(const HappensBefore& order)
        : last_(order.num_streams_, -1) {}

   private:
    friend class HappensBefore;
    std::vector<int32_t> last_;  // per stream, position or -1
  };
  void Add(int op, Frontier* frontier) const;
  // An op of the frontier that has not finished before `b` begins; -1 when
  // all have.
  int Unfinished(const Frontier& frontier, int b) const;

 private:
  int Slot(const Op& op) const;

  int num_streams_;  // the last one for ops without a stream
  std::vector<std::vector<int>> ops_on_;  // per stream, in program order
  std::vector<int> slot_;                 // per op: its stream ...
  std::vector<int32_t> position_;         // ... and its position on it
  // Per op and stream: how many of the stream's ops have finished before the
  // op begins.
  std::vector<int32_t> finished_;
  std::vector<bool> is_constant_;  // per op
};

// The values whose definition a program's op waits for by the rules above,
// besides its own stream's order: operands of a start, the future of a wait,
// `after`.
std::vector<ValueId> AwaitedValues(const Op& op);

// The ops that define them; inputs are available from the beginning.
std::vector<int> AwaitedOps(const Op& op, const DefUse& def_use);

}  // namespace asyra
