// Writes the steps of a chunk plan, with the signals and the memory that they
// need: what the templates (ir/plans/plan_templates.h) are made with.
//
// Steps of all ranks are added in one order in which they could run one after
// the other: what is waited for is posted before, so that no circle is made.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "absl/types/span.h"
#include "ir/plans/plan_templates.h"
#include "ir/plans/plan_walk.h"

namespace asyra {

// The buffer in which a rank has its part of a value of the body: what each
// rank's buffers begin with, one for each value in order.
PlanBuffer BufferOfValue(const GroupBody& group, int value, int rank);
// Adds a buffer to those of a rank and returns its number. Scratch without an
// offset is put behind the bytes that are `used`.
int AddPlanBuffer(int rank, PlanBuffer buffer, int64_t* used, ChunkPlan* plan);

class PlanBuilder {
 public:
  static constexpr int kComputeQueue = 0, kLibraryQueue = 1;

  // Refers to all of them. Every value of the body gets a buffer on every rank.
  PlanBuilder(const GroupBody& group, const PlanShape& shape,
              const PlanWalk& walk);

  // The body ----------------------------------------------------------------

  const Body& body() const { return group_.body; }
  const PlanShape& shape() const { return shape_; }
  const PlanWalk& walk() const { return walk_; }
  int ranks() const { return group_.ranks; }
  int num_ops() const { return static_cast<int>(body().ops.size()); }
  int ValueOf(int op) const { return body().num_operands + op; }
  CollectiveKind KindOf(int op) const { return body().ops[op].def->collective; }
  bool IsCollective(int op) const {
    return KindOf(op) != CollectiveKind::kNone;
  }
  // Returns the value that it moves.
  int OperandOf(int collective) const {
    return body().ops[collective].operands[0];
  }
  bool IsComputed(int value) const { return value >= body().num_operands; }
  Box BoxOf(int value, int rank) const {
    return asyra::BoxOf(group_.types[value], rank, ranks());
  }
  // Returns the same as in ir/plans/plan_walk.h.
  Box ChunkBox(int value, int rank, int64_t first, int64_t count) const {
    return asyra::ChunkBox(group_, walk_, value, rank, first, count);
  }
  Box ChunkOfAll(int value, int64_t first, int64_t count) const {
    return asyra::ChunkOfAll(group_, walk_, value, first, count);
  }
  // Part `part` of a rank's own shard.
  Box OwnChunk(int value, int rank, int64_t part) const {
    return ChunkOfAll(value, rank * walk_.parts + part, 1);
  }
  // Returns whether chunks go as soon as they are available, each on its own
  // way, and not by a ring or over two levels.
  bool MovesAtOnce() const {
    return shape_.route == PlanRoute::kDirect ||
           shape_.route == PlanRoute::kPull;
  }

  // Memory ------------------------------------------------------------------

  int BufferOf(int rank, int value) const { return buffer_of_[rank][value]; }
  const PlanBuffer& buffer(int rank, int index) const {
    return plan_.buffers[rank][index];
  }
  // Gives its number. Of scratch without an offset, in new memory.
  int AddBuffer(int rank, PlanBuffer buffer);

  // Steps -------------------------------------------------------------------

  // A post that somebody can wait for.
  struct Mark {
    int signal = -1;
    int count = 0;
  };
  enum Use : uint8_t { kReady, kDone, kArrived, kAck };

  Mark Post(int from, int from_queue, int to, int to_queue, Use use);
  // Nothing where the queue knows it already.
  void Wait(int rank, int queue, Mark mark);

  // The source of a copy: computed by the compute queue of `rank`, up to now,
  // or come to the rank, as the mark tells the queue that copies, or available
  // from the beginning.
  struct Source {
    int rank, buffer;
    bool computed;
    Mark came = {};
  };
  // Copies a box to a buffer of rank `to`, on a copy queue of the rank that
  // carries it out, with all signals, or in the next exchange. `forwards`: a
  // copy queue of `to` will pass it on, or -1. Nothing for an empty box.
  void Copy(const Source& source, int to, int buffer, const Box& box, int queue,
            int forwards = -1);
  // Makes one exchange of what ranks send to each other since the last one; it
  // comes by itself before somebody needs it. Nothing where copies carry it.
  void Exchange();
  // The mark for the queue that passes on what came in this box of a value.
  Mark CameTo(int rank, int value, const Box& box) const;

  // Returns the queue of `rank` that copies to or from `peer`. ActorOf: the one
  // of two ranks that copies.
  int QueueTo(int rank, int peer) const;
  int ActorOf(int from, int to) const {
    return shape_.route == PlanRoute::kPull ? to : from;
  }
  int QueueBetween(int from, int to) const {
    int actor = ActorOf(from, to);
    return QueueTo(actor, actor == from ? to : from);
  }

  // The compute queue waits until a box of a buffer has come.
  void Need(int rank, int buffer, const Box& box);
  void AddPiece(int op, int rank, std::vector<PlanRegion> reads,
                const Box& box);
  // The same with buffer `added`, which the compute queue waits for, added;
  // to buffer `to`.
  void AddPieceAndSum(int op, int rank, std::vector<PlanRegion> reads,
                      int added, int to, const Box& box);
  // Adds up the box in these buffers, which the compute queue waits for.
  void AddSum(int rank, const std::vector<int>& buffers, int to,
              const Box& box);

  // Ends the plan: waits for all that comes, and until others have read theirs.
  ChunkPlan Finish();

 private:
  // A box that came into a buffer, and the marks that queues of its rank wait
  // for to read it.
  struct Arrival {
    Box box;
    Mark compute, forward;
    bool comes_next = false;  // in the next exchange
  };
  // A message of the next exchange.
  struct Message {
    Source source;
    PlanRegion write;
  };

  void Send(const Source& source, int to, int buffer, const Box& box);
  void AddExchangeStep(int rank);
  void MakeBuffers(int rank);
  int CopyQueues() const;
  int SignalOf(int from, int from_queue, int to, int to_queue, Use use);
  // `queue` of `rank` may use the memory of `owner`, whose op has begun.
  void WaitReady(int rank, int queue, int owner);
  // The compute queue waits for all of these.
  void WaitForAll(int rank, absl::Span<const Mark> marks);
  // Waits that another one of the same signal follows at once.
  void DropImpliedWaits(std::vector<PlanStep>* steps) const;

  const GroupBody& group_;
  const PlanShape& shape_;
  const PlanWalk& walk_;
  ChunkPlan plan_;
  std::vector<std::vector<int>> buffer_of_;  // by rank and value
  std::map<int, int64_t> used_;              // of the workspace, by rank
  std::map<std::tuple<int, int, int, int, Use>, int> signal_of_;
  std::vector<int> posted_, awaited_;                        // by signal
  std::vector<std::vector<std::vector<Arrival>>> arrivals_;  // rank, buffer
  std::vector<std::vector<Mark>> acks_;  // by rank that waits for them
  std::vector<Message> messages_;        // of the next exchange
  int exchanges_ = 0;
};

// Ranks of hosts that have equally many each.
struct PlanHosts {
  int inner = 1;  // ranks of a host
  int hosts = 1;

  explicit PlanHosts(const PlanBuilder& builder);
  int Host(int rank) const { return rank / inner; }
  int Seat(int rank) const { return rank % inner; }
  int RankAt(int host, int seat) const { return host * inner + seat; }
  RankSet Members(int host) const;

  // The copy queues inside a host and between hosts.
  static constexpr int kNearQueue = 1, kFarQueue = 2;
};

}  // namespace asyra
