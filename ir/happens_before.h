// Which ops of a scheduled program have finished before which others begin,
// on every execution. The one definition of order between streams: the
// verifier and the memory planner check against it, the executor records the
// events that make it so and the simulator replays the same edges.
//
// An op begins when these have finished:
//   the op before it on its stream;
//   what defines the operands of a `start`, on whatever stream (a fork);
//   the `start` whose future it waits for (a join);
//   what defines the values of its `after`.
// Reading an operand on another stream is no edge: it must be ordered by one
// of the above. Ops without a stream run in text order, as on one stream.
//
// Every op has a place on its stream, also those that run no kernel in a step:
// views, and constants (IsSetUpOnce), which are computed before the first
// step. To come after one of them is to come after all that is before it on
// its stream. The value of a constant is always there: reading it needs no
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

  // Op `a` has finished before op `b` begins: its place on its stream has been
  // passed. False for a == b. -1 stands for the beginning of the program,
  // where the inputs are there.
  bool Finished(int a, int b) const;
  // What op `a` computes is there before op `b` begins.
  bool Computed(int a, int b) const {
    return a >= 0 && is_constant_[a] ? b >= 0 : Finished(a, b);
  }

  // The latest of several ops on each stream, so that many can be asked about
  // at the cost of one.
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
  std::vector<std::vector<int>> ops_on_;  // per stream, in text order
  std::vector<int> slot_;                 // per op: its stream ...
  std::vector<int32_t> position_;         // ... and its place on it
  // Per op and stream: how many of the stream's ops have finished before the
  // op begins.
  std::vector<int32_t> finished_;
  std::vector<bool> is_constant_;  // per op
};

// The values whose definition a program's op waits for by the rules above,
// besides its own stream's order: operands of a start, the future of a wait,
// `after`.
std::vector<ValueId> AwaitedValues(const Op& op);

// The ops that define them; inputs are there from the beginning.
std::vector<int> AwaitedOps(const Op& op, const DefUse& def_use);

}  // namespace asyra
