// A chunk plan: how the ranks of a group carry out the body of an `overlap` op
// (ir/overlap.h) in pieces, each communicated while others are computed. Pure
// data, for all ranks at once: made by templates (ir/plans/plan_templates.h) or
// written by hand, proven by ir/plans/verify_plan.h, interpreted by
// ir/plans/plan_interpreter.h, executed and simulated elsewhere.
//
// Every rank has queues, which run their steps in order and otherwise at the
// same time. Order between queues, of one rank or of several, comes from
// signals and exchanges alone. All regions are in coordinates of the global
// value, so that a copy moves a box to the same box of another buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/body.h"
#include "ir/type.h"

namespace asyra {

// A box of a tensor: in each dimension, the first index and the size.
struct Box {
  Shape start, size;

  int rank() const { return static_cast<int>(size.size()); }
  int64_t elements() const { return NumElements(size); }
  bool Contains(const Box& other) const;
  friend bool operator==(const Box& a, const Box& b) {
    return a.start == b.start && a.size == b.size;
  }
};
// Returns a box of size 0 in some dimension if they do not overlap. Both have
// equal ranks.
Box Intersection(const Box& a, const Box& b);
// Returns whether the boxes have an element in common.
bool Overlap(const Box& a, const Box& b);
std::string ToString(const Box& box);  // "[0:4, 8:16]"

// Copies the box `what` from a tensor that holds the box `from_box`, dense and
// row-major, to one that holds `to_box`. Both contain it.
void CopyBox(const std::byte* from, const Box& from_box, std::byte* to,
             const Box& to_box, const Box& what, int64_t element_bytes);
// Tells whether `what` is one run of bytes in a tensor that holds `box`, and at
// which element it begins.
bool IsContiguous(const Box& what, const Box& box);
int64_t FirstElement(const Box& what, const Box& box);

// Members of the group, as bits.
using RankSet = uint64_t;
inline constexpr int kMaxPlanRanks = 64;
inline RankSet OnlyRank(int rank) { return RankSet{1} << rank; }
inline RankSet AllRanks(int ranks) {
  return ranks == kMaxPlanRanks ? ~RankSet{0} : OnlyRank(ranks) - 1;
}

// Memory of one rank that holds a box of a value of the body, or the sum of
// some ranks' summands of it.
struct PlanBuffer {
  enum Role : uint8_t {
    kOperand,  // number `index` of the op: complete from the beginning
    kResult,   // number `index` of the op: to be complete at the end
    kScratch,  // in the workspace
  };
  Role role = kScratch;
  int index = 0;
  int value = 0;  // of the body
  Box box;
  RankSet summands = 0;  // of all ranks: the value itself
  int64_t offset = -1;   // of scratch: bytes into the workspace

  friend bool operator==(const PlanBuffer&, const PlanBuffer&) = default;
};

struct PlanRegion {
  int rank = 0;
  int buffer = 0;  // of that rank
  Box box;

  friend bool operator==(const PlanRegion&, const PlanRegion&) = default;
};

struct PlanStep {
  enum Kind : uint8_t {
    kPiece,  // op `op` of the body on boxes of its operands; a matmul may read
             // one more, of its result's shape, which it adds to that
    kCopy,   // reads[0] to `write`, one of them on this rank
    kSum,    // the sum of `reads`, in this order
    kWait,   // until `signal` has been posted `count` times
    kPost,   // posts `signal` for the `count`-th time
    // This rank's part of exchange number `count`, a call of a library that
    // moves messages (ir/plans/plan_exchanges.h): sends reads[i] to writes[i],
    // which are on other ranks.
    kExchange,
  };
  Kind kind = kPiece;
  int queue = 0;
  int op = -1;
  std::vector<PlanRegion> reads;
  PlanRegion write;
  std::vector<PlanRegion> writes;  // of an exchange
  int signal = -1;
  int count = 0;
  // The place in the text that is being read; 0: in none. Not compared.
  int line = 0, column = 0;

  friend bool operator==(const PlanStep& a, const PlanStep& b) {
    return a.kind == b.kind && a.queue == b.queue && a.op == b.op &&
           a.reads == b.reads && a.write == b.write && a.writes == b.writes &&
           a.signal == b.signal && a.count == b.count;
  }
};

// From one queue to another. One poster each: a count means a place in the
// poster's order, also where one rank has begun the next step already.
struct PlanSignal {
  int from_rank = 0, from_queue = 0;
  int to_rank = 0, to_queue = 0;
  std::string name = "signal";  // tells apart those between the same queues

  friend bool operator==(const PlanSignal&, const PlanSignal&) = default;
};

struct PlanQueue {
  std::string name;
  bool computes = false;  // else it copies

  friend bool operator==(const PlanQueue&, const PlanQueue&) = default;
};

struct ChunkPlan {
  int ranks = 1;
  Body body;
  // Types of the body's values, over a mesh whose one axis is the group.
  std::vector<Type> types;
  std::vector<PlanQueue> queues;                 // of every rank
  std::vector<std::vector<PlanBuffer>> buffers;  // by rank
  std::vector<PlanSignal> signals;
  // By rank, in an order in which they may be issued: steps of a queue in the
  // order in which it runs them.
  std::vector<std::vector<PlanStep>> steps;
  int64_t workspace_bytes = 0;  // of each rank

  friend bool operator==(const ChunkPlan&, const ChunkPlan&) = default;

  const PlanBuffer& buffer(const PlanRegion& region) const {
    return buffers[region.rank][region.buffer];
  }
  DType dtype(const PlanRegion& region) const {
    return types[buffer(region).value].dtype;
  }
};

// The part of a value that a rank holds, `type` being over the group's axis.
Box BoxOf(const Type& type, int rank, int ranks);
int64_t BytesOf(const ChunkPlan& plan, const PlanBuffer& buffer);
int64_t BytesOf(const ChunkPlan& plan, const PlanRegion& region);

// For each value of the body the first of those that are globally the same:
// collectives change where a value is, not what it is.
std::vector<int> SameValues(const Body& body);

// Returns whether a piece adds a box to what its op computes.
bool AddsToResult(const ChunkPlan& plan, const PlanStep& step);

// Returns whether a step is issued as one with the step before it: posts to
// other ranks, or waits for them, that follow on one queue.
bool JoinsStepBefore(const ChunkPlan& plan, int rank, size_t step);

// The call that a piece computes, over the types of its boxes: its op, or a
// fusion of the op and an add.
class PieceCall {
 public:
  PieceCall(const ChunkPlan& plan, const PlanStep& piece);
  PieceCall(const PieceCall&) = delete;
  PieceCall& operator=(const PieceCall&) = delete;
  const OpCall& call() const { return call_; }

 private:
  std::vector<Type> operands_;
  Type result_;
  bool adds_;
  AttrMap attrs_;
  OpCall call_;
};

// "rank 1, step 7, on compute: matmul of %2[4:8, 0:6]".
std::string Describe(const ChunkPlan& plan, int rank, int step);

}  // namespace asyra
