// Searches for the order of issue that the simulator finds fastest within a
// memory budget, from given orders and those of a list scheduler.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "passes/analysis/op_classes.h"
#include "simulator/replay/costed_program.h"
#include "simulator/replay/replay.h"

namespace asyra {

struct NamedOrder {
  std::string name;        // "segrr"
  std::vector<int> order;  // as Replay takes it
};

// The criteria by which schedules are judged.
struct Merit {
  double makespan_us = 0;
  int64_t peak_bytes = 0;
  bool fits = true;  // the memory budget

  // Returns whether this is better: among what fits the budget the faster,
  // otherwise the smaller.
  bool BetterThan(const Merit& other) const;
};

// The priority of a class of ops: those that are equal, read equal ops, and lie
// in one lane.
struct ClassPriority {
  ClassKey key;
  double gain_us = 0;
};

// A way to build an order: options of the list scheduler, and priorities of
// classes of ops.
struct OrderRule {
  double lookahead_us = 0;
  double stretch = 1;  // of collectives
  // The time by which each lane is ahead of the next, from the beginning on.
  double stagger_us = 0;
  // The same time, but only where both could go on.
  double lead_us = 0;
  double collective_lookahead = 0;  // ListOptions::collective_lookahead
  int window = 0;                   // ListOptions::window
  // Priority gained by classes of ops; empty: none.
  std::vector<ClassPriority> classes;
};

inline constexpr int kMostSearchSteps = 10'000'000;

struct OrderSearchOptions {
  // The number of orders that may be simulated, the seeds always. The result
  // depends on it and on the program alone, not on the machine that searches.
  int steps = 300;
  int64_t memory_bytes = 0;  // the peak must not pass it; 0: any
  uint64_t seed = 1;
  // The longest makespan of orders that are looked for, beside the first seed,
  // as results have it.
  double limit_us = std::numeric_limits<double>::infinity();
  // The options under which orders are judged: `contention` and `launch_scale`.
  ReplayOptions replay;
  // The rules to begin with, after the seeds. They may be of a program with
  // other layers or attributes: a class is the one with its exact key, or else
  // the next one with a similar key (OrderSearchResult::lost).
  std::vector<OrderRule> rules;
};

// The result of a search, its makespan at the clock of the step (UsAtItsClock)
// where costs have one. If nothing fits the budget, `best` is the order of
// least memory.
struct OrderSearchResult : Merit {
  NamedOrder best;
  OrderRule rule;  // the best of those tried
  int steps = 0;   // orders simulated
  // Classes of given rules that gain priority and were not found.
  int lost = 0;
  // The smallest peak of what was tried until something fitted, and of what
  // was faster then.
  int64_t least_peak_bytes = 0;
};

// Returns an order that is never worse than the best of `seeds` (at least one)
// that fits the budget.
//
// First the list scheduler under a few rules: how far a stream looks ahead,
// how far the lanes run apart, how slow collectives are beside computation;
// where one of them is over the budget, also how far ops run ahead of those
// before them in the program.
// Then local search on the best of these: classes of ops (those a program has
// once a layer and lane, op_classes.h) gain or lose priority, all layers at
// once, and what simulates faster is kept. Classes are drawn at random, and now
// and then from collectives on the critical path that others delay. Faster also
// means: on the whole when costs carry 10 % noise (cost_noise.h), so that an
// order is not fitted to the last digit of a cost model.
OrderSearchResult SearchOrder(const CostedProgram& costed,
                              const std::vector<NamedOrder>& seeds,
                              const OrderSearchOptions& options = {});

}  // namespace asyra
