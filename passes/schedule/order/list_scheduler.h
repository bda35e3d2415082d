// List scheduling: builds an order of issue by simulating the program forward
// in time. Whenever a stream is free it takes the ready op with the highest
// bottom level: the longest path to the end of the program.
//
// Its model is simpler than the simulator's: concurrent ops do not slow each
// other. Its orders are therefore candidates for the simulator
// (order_search.h).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "passes/schedule/order/flat_lists.h"
#include "simulator/replay/costed_program.h"

namespace asyra {

struct ListOptions {
  // The longest wait of a free stream for an op of higher priority.
  double lookahead_us = 0;
  // Factor on the time of collectives.
  double collective_stretch = 1;
  // Subtracted from the priority of each op, per us between its start and that
  // of the next collective that depends on it: keeps collective streams busy.
  double collective_lookahead = 0;
  // Added to the priority of each op, in us of bottom level; empty: nothing.
  absl::Span<const double> bias = {};
  // The earliest start by op; empty: at once.
  absl::Span<const double> release_us = {};
  // Bytes of results alive at once, beyond what is resident: ops that would
  // take more are put off as long as others can run. 0: any.
  int64_t memory_bytes = 0;
  // An op waits until all ops are done that stand more than so many before it
  // in the program; 0: any. What runs ahead of its readers, and what is put off
  // though it is the last reader of something large, keeps memory: the order of
  // the program bounds both.
  int window = 0;
};

// Returns whether an op takes a place on its stream: ops that cost something
// do, and upper halves of params. Collectives that gather params wait for
// these; without a place all such collectives would be ready at the beginning,
// and in the way of others.
bool HasPlace(const Op& op, const OpCost& cost);

// Data shared by all runs over one program, which must outlive it.
class ListScheduler {
 public:
  explicit ListScheduler(const CostedProgram& costed);

  // Indices of all ops in order of issue: definitions before uses, readers of
  // a state before what replaces it. Ops without a place (waits, views) come
  // right before the first op that needs them. Deterministic.
  std::vector<int> Run(const ListOptions& options = {}) const;

  const CostedProgram& costed() const { return costed_; }
  // Returns the bottom level of each op: from its start to the end of the
  // program, along its data.
  absl::Span<const double> bottom_level_us() const { return bottom_level_us_; }

 private:
  friend class ListRun;
  using Lists = std::vector<std::vector<int>>;

  void FindEdges();
  void FindBuffers();

  const CostedProgram& costed_;
  FlatLists before_, after_;  // by op
  std::vector<double> bottom_level_us_;
  // The time to the next collective along its data, or to the end of the
  // program.
  std::vector<double> to_collective_us_;
  std::vector<int> server_;  // by op: the stream it occupies; -1: free
  int servers_ = 0;
  FlatLists reads_;                  // by op: the buffers, once each
  std::vector<int64_t> made_bytes_;  // by op: of the buffers that it makes
  std::vector<int64_t> buffer_bytes_;
  std::vector<int> buffer_readers_;
};

}  // namespace asyra
