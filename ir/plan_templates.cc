#include "ir/plan_templates.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "absl/algorithm/container.h"
#include "ir/plan_walk.h"
#include "ir/support/round_up.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr int kComputeLane = 0;
constexpr int64_t kBufferAlignment = 256;

// A post that somebody can wait for.
struct Mark {
  int signal = -1;
  int count = 0;
};

// Writes the steps of all ranks in one order in which they could run one after
// the other: what is waited for is posted before, so that no circle is made.
class PlanMaker {
 public:
  PlanMaker(const GroupBody& body, const PlanShape& shape, PlanWalk walk)
      : body_(body), shape_(shape), walk_(std::move(walk)), n_(body.ranks) {}

  absl::StatusOr<ChunkPlan> Make() {
    ASYRA_RETURN_IF_ERROR(CheckShape());
    Begin();
    int levels = *absl::c_max_element(walk_.level) + 1;
    for (int k = 0; k < body_.body.num_operands; ++k) SendOperand(k);
    for (int level = 0; level < levels; ++level) {
      IsRingOfSums(level) ? RingOfSums(level) : Pieces(level);
      Sums(level);
    }
    End();
    return std::move(plan_);
  }

  // The runs of chunks that a rank computes at once.
  using Run = std::pair<int64_t, int64_t>;  // first, count
  std::vector<int64_t> ChunksOf(int rank, int level) const {
    std::vector<int64_t> chunks;
    for (int k = 0; k < n_; ++k) {
      int64_t shard = k;
      if (shape_.order == PlanOrder::kOwnFirst) shard = (rank + k) % n_;
      if (shape_.order == PlanOrder::kOwnLast) shard = (rank + 1 + k) % n_;
      for (int64_t p = 0; p < walk_.parts; ++p) {
        int64_t chunk = shard * walk_.parts + p;
        if (HasPiece(rank, level, chunk)) chunks.push_back(chunk);
      }
    }
    return chunks;
  }

 private:
  const Body& body() const { return body_.body; }
  bool IsCollective(int op) const {
    return body().ops[op].def->collective != CollectiveKind::kNone;
  }
  int ValueOf(int op) const { return body().num_operands + op; }
  int num_ops() const { return static_cast<int>(body().ops.size()); }

  bool HasPiece(int rank, int level, int64_t chunk) const {
    for (int i = 0; i < num_ops(); ++i) {
      if (IsCollective(i) || walk_.level[ValueOf(i)] != level) continue;
      if (ChunkBox(body_, walk_, ValueOf(i), rank, chunk, 1).elements() > 0) {
        return true;
      }
    }
    return false;
  }

  absl::Status CheckRoute() const {
    bool levels = shape_.route == PlanRoute::kTwoLevels;
    if (levels && (shape_.inner < 1 || n_ % shape_.inner != 0)) {
      return Invalid("{} ranks are not hosts of {}", n_, shape_.inner);
    }
    if (!levels && shape_.route != PlanRoute::kRing) return absl::OkStatus();
    for (int i = 0; i < num_ops(); ++i) {
      const BodyOp& op = body().ops[i];
      if (op.def->collective == CollectiveKind::kAllToAll) {
        return Invalid("{}: an exchange goes direct or is pulled",
                       op.def->name);
      }
      if (!levels && asyra::Sums(op.def->collective) &&
          !shape_.groups.empty()) {
        return Invalid("{}: a ring that adds has no groups", op.def->name);
      }
    }
    return absl::OkStatus();
  }

 public:
  // Errors of MakePlan.
  absl::Status CheckShape() const {
    for (int64_t group : shape_.groups) {
      if (group < 1) return Invalid("a group has {} chunks", group);
    }
    int64_t covered = absl::c_accumulate(shape_.groups, int64_t{0});
    int64_t most = MostChunks();
    if (covered > 0 && covered != most) {
      return Invalid("the groups cover {} chunks, a rank computes {}", covered,
                     most);
    }
    if (shape_.copy_lanes < 1) {
      return Invalid("copy_lanes is {}, there must be one", shape_.copy_lanes);
    }
    return CheckRoute();
  }

  int64_t MostChunks() const {
    size_t most = 0;
    for (int level = 0; level <= *absl::c_max_element(walk_.level); ++level) {
      for (int r = 0; r < n_; ++r) {
        most = std::max(most, ChunksOf(r, level).size());
      }
    }
    return static_cast<int64_t>(most);
  }

 private:
  // Lanes and buffers -------------------------------------------------------

  void Begin() {
    plan_.ranks = n_;
    plan_.body = body();
    plan_.types = body_.types;
    plan_.lanes.push_back({"compute", true});
    for (int k = 0; k < CopyLanes(); ++k) {
      plan_.lanes.push_back({fmt::format("copy {}", k), false});
    }
    plan_.steps.resize(n_);
    plan_.buffers.resize(n_);
    arrivals_.resize(n_);
    acks_.resize(n_);
    buffer_of_.assign(n_, std::vector<int>(body().num_values(), -1));
    for (int r = 0; r < n_; ++r) MakeBuffers(r);
  }

  int CopyLanes() const {
    if (shape_.route == PlanRoute::kRing) return 1;
    if (shape_.route == PlanRoute::kTwoLevels) return 2;
    return std::min(shape_.copy_lanes, n_ - 1);
  }

  void MakeBuffers(int rank) {
    for (int v = 0; v < body().num_values(); ++v) {
      PlanBuffer buffer;
      auto result = absl::c_find(body().results, v);
      if (v < body().num_operands) {
        buffer.role = PlanBuffer::kOperand;
        buffer.index = v;
      } else if (result != body().results.end()) {
        buffer.role = PlanBuffer::kResult;
        buffer.index = static_cast<int>(result - body().results.begin());
      }
      buffer.value = v;
      buffer.box = BoxOf(body_.types[v], rank, n_);
      buffer.summands =
          body_.types[v].partial.empty() ? AllRanks(n_) : OnlyRank(rank);
      buffer_of_[rank][v] = AddBuffer(rank, buffer);
    }
  }

  int AddBuffer(int rank, PlanBuffer buffer) {
    std::vector<PlanBuffer>& buffers = plan_.buffers[rank];
    if (buffer.role == PlanBuffer::kScratch && buffer.offset < 0) {
      buffer.offset = used_[rank];
      used_[rank] += RoundUp(BytesOf(plan_, buffer), kBufferAlignment);
      plan_.workspace_bytes = std::max(plan_.workspace_bytes, used_[rank]);
    }
    buffers.push_back(std::move(buffer));
    arrivals_[rank].resize(buffers.size());
    return static_cast<int>(buffers.size()) - 1;
  }

  // Memory for the sum of some summands of chunks [first, first + count).
  int AddSumBuffer(int rank, int value, const Box& box, RankSet summands) {
    return AddBuffer(rank, {.value = value, .box = box, .summands = summands});
  }

  // Steps and signals -------------------------------------------------------

  enum Use : uint8_t { kReady, kDone, kArrived, kAck };

  PlanStep& Add(int rank, PlanStep step) {
    plan_.steps[rank].push_back(std::move(step));
    return plan_.steps[rank].back();
  }

  int SignalOf(int from, int from_lane, int to, int to_lane, Use use) {
    auto [at, added] =
        signal_of_.try_emplace({from, from_lane, to, to_lane, use},
                               static_cast<int>(plan_.signals.size()));
    if (added) {
      plan_.signals.push_back({from, from_lane, to, to_lane});
      posted_.push_back(0);
      awaited_.push_back(0);
    }
    return at->second;
  }

  Mark Post(int from, int from_lane, int to, int to_lane, Use use) {
    Mark mark{SignalOf(from, from_lane, to, to_lane, use), 0};
    mark.count = ++posted_[mark.signal];
    Add(from, {.kind = PlanStep::kPost,
               .lane = from_lane,
               .signal = mark.signal,
               .count = mark.count});
    return mark;
  }

  void Wait(int rank, int lane, Mark mark) {
    if (awaited_[mark.signal] >= mark.count) return;
    awaited_[mark.signal] = mark.count;
    Add(rank, {.kind = PlanStep::kWait,
               .lane = lane,
               .signal = mark.signal,
               .count = mark.count});
  }

  // `lane` of `rank` may use the memory of `owner`, whose op has begun.
  void WaitReady(int rank, int lane, int owner) {
    if (rank == owner) return;
    int signal = SignalOf(owner, kComputeLane, rank, lane, kReady);
    if (posted_[signal] == 0) {
      posted_[signal] = 1;
      auto& steps = plan_.steps[owner];
      steps.insert(steps.begin(), PlanStep{.kind = PlanStep::kPost,
                                           .lane = kComputeLane,
                                           .signal = signal,
                                           .count = 1});
    }
    Wait(rank, lane, {signal, 1});
  }

  PlanRegion Region(int rank, int buffer, const Box& box) const {
    return {rank, buffer, box};
  }

  // Copies ------------------------------------------------------------------

  // What came into a buffer, and what lanes of its rank wait for to read it.
  struct Arrival {
    Box box;
    Mark compute, forward;
  };

  struct Source {
    int rank, buffer;
    bool computed;  // by the compute lane, up to now
    // Or it came: the mark for `lane`.
    Mark came = {};
  };

  int LaneTo(int rank, int peer) const {
    return 1 + (((peer - rank + n_) % n_ - 1 + n_) % n_) % CopyLanes();
  }

  // Copies a box to a buffer of rank `to`, on a copy lane of the rank that
  // carries it out. `forwards`: a copy lane of `to` will pass it on, or -1.
  void Copy(const Source& source, int to, int buffer, const Box& box, int lane,
            int forwards = -1) {
    if (box.elements() == 0) return;
    bool pull = shape_.route == PlanRoute::kPull && source.rank != to;
    int actor = pull ? to : source.rank;
    if (source.computed) {
      Mark done = Post(source.rank, kComputeLane, actor, lane, kDone);
      Wait(actor, lane, done);
    } else if (source.came.signal >= 0) {
      Wait(actor, lane, source.came);
    }
    // What was computed there tells that its op has begun.
    if (!pull || !source.computed) {
      WaitReady(actor, lane, pull ? source.rank : to);
    }
    Add(actor, {.kind = PlanStep::kCopy,
                .lane = lane,
                .reads = {Region(source.rank, source.buffer, box)},
                .write = Region(to, buffer, box)});
    Arrival arrival{box, Post(actor, lane, to, kComputeLane, kArrived), {}};
    if (forwards >= 0) {
      arrival.forward = Post(actor, lane, to, forwards, kArrived);
    }
    arrivals_[to][buffer].push_back(arrival);
    if (pull) {
      acks_[source.rank].push_back(
          Post(actor, lane, source.rank, kComputeLane, kAck));
    }
  }

  // The compute lane waits for all of these; a later count of a signal is a
  // wait for the earlier ones too.
  void WaitForAll(int rank, absl::Span<const Mark> marks) {
    std::map<int, int> counts;
    for (Mark mark : marks) {
      int& count = counts[mark.signal];
      count = std::max(count, mark.count);
    }
    for (auto [signal, count] : counts) {
      Wait(rank, kComputeLane, {signal, count});
    }
  }

  // The compute lane waits until a box of a buffer has come.
  void Need(int rank, int buffer, const Box& box) {
    std::vector<Mark> marks;
    for (const Arrival& arrival : arrivals_[rank][buffer]) {
      if (Intersection(arrival.box, box).elements() == 0) continue;
      marks.push_back(arrival.compute);
    }
    WaitForAll(rank, marks);
  }

  // What a rank holds of `value` where a reader of the collective's result
  // `value` may read it in place: its own part of the operand.
  int OwnPart(int rank, int value, const Box& box) const {
    if (value < body().num_operands) return -1;
    const BodyOp& op = body().ops[value - body().num_operands];
    if (op.def->collective != CollectiveKind::kAllGather) return -1;
    int own = buffer_of_[rank][op.operands[0]];
    return plan_.buffers[rank][own].box.Contains(box) ? own : -1;
  }

  // The own part of a gather's result at its place there: where the body gives
  // it, or a piece reads it together with others' parts.
  void CopyOwnPart(int rank, int value) {
    if (!copied_.insert({rank, value}).second) return;
    int operand = body().ops[value - body().num_operands].operands[0];
    int from = buffer_of_[rank][operand];
    Copy({rank, from, operand >= body().num_operands}, rank,
         buffer_of_[rank][value], plan_.buffers[rank][from].box, 1);
  }

  // The order in which a rank serves the others: first whose turn it is.
  int Peer(int rank, int k) const { return (rank - k + n_) % n_; }

  void SendOperand(int k) {
    for (int i = 0; i < num_ops(); ++i) {
      if (!IsCollective(i) || body().ops[i].operands[0] != k) continue;
      if (!asyra::Sums(body().ops[i].def->collective)) {
        SendChunks(i, false);
        continue;
      }
      for (int r = 0; r < n_; ++r) {
        SendSummands(i, r, BoxOf(body_.types[k], r, n_), false);
      }
    }
  }

  // All of the operand of a collective that moves, chunk by chunk.
  void SendChunks(int op, bool computed) {
    int value = body().ops[op].operands[0];
    if (body().ops[op].def->collective == CollectiveKind::kAllGather &&
        !MovesAtOnce()) {
      std::vector<Source> sources;
      for (int r = 0; r < n_; ++r) {
        sources.push_back({r, buffer_of_[r][value], computed});
      }
      Gather(sources, ValueOf(op));
      for (int r = 0; r < n_; ++r) SendOwn(op, r);
      return;
    }
    for (int64_t p = 0; p < walk_.parts; ++p) {
      for (int k = 0; k < n_; ++k) {
        for (int r = 0; r < n_; ++r) {
          for (int s = 0; s < n_; ++s) {
            int64_t chunk = s * walk_.parts + p;
            Send(op, r, Peer(r, k), ChunkBox(body_, walk_, value, r, chunk, 1),
                 computed);
          }
        }
      }
    }
  }

  // What rank `to` holds of the collective's result in this box of rank
  // `from`'s operand.
  void Send(int op, int from, int to, const Box& box, bool computed) {
    int value = ValueOf(op);
    if (from == to &&
        body().ops[op].def->collective == CollectiveKind::kAllGather) {
      if (!computed) SendOwn(op, from);
      return;
    }
    Box its = Intersection(box, BoxOf(body_.types[value], to, n_));
    int actor = shape_.route == PlanRoute::kPull ? to : from;
    int lane = from == to ? 1 : LaneTo(actor, actor == from ? to : from);
    Copy({from, buffer_of_[from][body().ops[op].operands[0]], computed}, to,
         buffer_of_[to][value], its, lane);
  }

  // A gathered value that the body gives has the own part too.
  void SendOwn(int op, int rank) {
    int value = ValueOf(op);
    if (!absl::c_linear_search(body().results, value)) return;
    CopyOwnPart(rank, value);
  }

  // Brings each rank's own chunks from its source to all other ranks' `value`,
  // by a ring or over two levels.
  void Gather(const std::vector<Source>& sources, int value) {
    shape_.route == PlanRoute::kRing ? RingGather(sources, value)
                                     : TwoLevelGather(sources, value);
  }

  void RingGather(const std::vector<Source>& sources, int value) {
    for (int hop = 1; hop < n_; ++hop) {
      for (int64_t p = 0; p < walk_.parts; ++p) {
        for (int r = 0; r < n_; ++r) {
          int shard = (r + hop - 1) % n_, to = (r + n_ - 1) % n_;
          Box box = ChunkOfAll(body_, walk_, value, shard * walk_.parts + p, 1);
          Source source = sources[r];
          if (hop > 1) {
            source = {r, buffer_of_[r][value], false, CameTo(r, value, box)};
          }
          Copy(source, to, buffer_of_[to][value], box, 1,
               hop + 1 < n_ ? 1 : -1);
        }
      }
    }
  }

  Mark CameTo(int rank, int value, const Box& box) const {
    for (const Arrival& arrival : arrivals_[rank][buffer_of_[rank][value]]) {
      if (arrival.box.Contains(box)) return arrival.forward;
    }
    return {};
  }

  int Host(int rank) const { return rank / static_cast<int>(shape_.inner); }
  int Seat(int rank) const { return rank % static_cast<int>(shape_.inner); }
  int RankAt(int host, int seat) const {
    return host * static_cast<int>(shape_.inner) + seat;
  }
  int hosts() const { return n_ / static_cast<int>(shape_.inner); }
  static constexpr int kNearLane = 1, kFarLane = 2;

  void TwoLevelGather(const std::vector<Source>& sources, int value) {
    int inner = static_cast<int>(shape_.inner);
    for (int64_t p = 0; p < walk_.parts; ++p) {
      auto chunk = [&](int r) {
        return ChunkOfAll(body_, walk_, value, r * walk_.parts + p, 1);
      };
      for (int r = 0; r < n_; ++r) {
        for (int k = 1; k < hosts(); ++k) {
          int to = RankAt((Host(r) + hosts() - k) % hosts(), Seat(r));
          Copy(sources[r], to, buffer_of_[to][value], chunk(r), FarLane(),
               inner > 1 ? kNearLane : -1);
        }
        for (int k = 1; k < inner; ++k) {
          int to = RankAt(Host(r), (Seat(r) + inner - k) % inner);
          Copy(sources[r], to, buffer_of_[to][value], chunk(r), kNearLane);
        }
      }
      for (int k = 1; k < hosts(); ++k) {
        for (int r = 0; r < n_; ++r) {
          int origin = RankAt((Host(r) + k) % hosts(), Seat(r));
          for (int j = 1; j < inner; ++j) {
            int to = RankAt(Host(r), (Seat(r) + inner - j) % inner);
            Copy({r, buffer_of_[r][value], false,
                  CameTo(r, value, chunk(origin))},
                 to, buffer_of_[to][value], chunk(origin), kNearLane);
          }
        }
      }
    }
  }
  int FarLane() const { return std::min(kFarLane, CopyLanes()); }

  // Pieces ------------------------------------------------------------------

  std::vector<Run> RunsOf(int rank, int level) const {
    std::vector<int64_t> chunks = ChunksOf(rank, level);
    std::vector<int64_t> groups = shape_.groups;
    int64_t covered = absl::c_accumulate(groups, int64_t{0});
    if (covered != static_cast<int64_t>(chunks.size())) {
      groups.assign(chunks.size(), 1);
    }
    std::vector<Run> runs;
    size_t at = 0;
    for (int64_t group : groups) {
      for (int64_t k = 0; k < group; ++k, ++at) {
        if (k > 0 && chunks[at] == chunks[at - 1] + 1) {
          ++runs.back().second;
        } else {
          runs.push_back({chunks[at], 1});
        }
      }
    }
    return runs;
  }

  void Pieces(int level) {
    std::vector<std::vector<Run>> runs;
    size_t most = 0;
    for (int r = 0; r < n_; ++r) {
      runs.push_back(RunsOf(r, level));
      most = std::max(most, runs.back().size());
    }
    for (size_t k = 0; k < most; ++k) {
      for (int r = 0; r < n_; ++r) {
        if (k < runs[r].size()) PiecesOf(level, r, runs[r][k]);
      }
    }
    // What moves over rings and levels goes when all of it is there.
    for (int i = 0; i < num_ops(); ++i) {
      if (!MovesAfter(i, level)) continue;
      if (!MovesAtOnce(i)) {
        SendChunks(i, true);
      } else if (IsGathered(ValueOf(i))) {
        for (int r = 0; r < n_; ++r) SendOwn(i, r);
      }
    }
  }

  // Whether collective `op` moves a value that pieces of `level` make.
  bool MovesAfter(int op, int level) const {
    if (!IsCollective(op)) return false;
    int from = body().ops[op].operands[0];
    return from >= body().num_operands && walk_.level[from] == level &&
           !asyra::Sums(body().ops[op].def->collective);
  }
  bool MovesAtOnce(int op) const {
    return body().ops[op].def->collective != CollectiveKind::kAllGather ||
           MovesAtOnce();
  }

  void PiecesOf(int level, int rank, Run run) {
    for (int i = 0; i < num_ops(); ++i) {
      if (IsCollective(i) || walk_.level[ValueOf(i)] != level) continue;
      Box box = ChunkBox(body_, walk_, ValueOf(i), rank, run.first, run.second);
      if (box.elements() == 0) continue;
      Piece(i, rank, run, box);
      AfterPiece(ValueOf(i), rank, box);
    }
  }

  void Piece(int op, int rank, Run run, const Box& box) {
    PlanStep step{.kind = PlanStep::kPiece, .lane = kComputeLane, .op = op};
    for (int value : body().ops[op].operands) {
      Box read = ChunkBox(body_, walk_, value, rank, run.first, run.second);
      int own = OwnPart(rank, value, read);
      if (own >= 0) {
        step.reads.push_back(Region(rank, own, read));
        continue;
      }
      int buffer = buffer_of_[rank][value];
      if (IsGathered(value) && NeedsOwnPart(rank, value, read)) {
        CopyOwnPart(rank, value);
      }
      Need(rank, buffer, read);
      step.reads.push_back(Region(rank, buffer, read));
    }
    step.write = Region(rank, buffer_of_[rank][ValueOf(op)], box);
    Add(rank, std::move(step));
  }

  bool NeedsOwnPart(int rank, int value, const Box& box) const {
    int operand = body().ops[value - body().num_operands].operands[0];
    Box own = plan_.buffers[rank][buffer_of_[rank][operand]].box;
    return Intersection(own, box).elements() > 0;
  }

  bool IsGathered(int value) const {
    return value >= body().num_operands &&
           body().ops[value - body().num_operands].def->collective ==
               CollectiveKind::kAllGather;
  }

  // The collectives that read a piece's result move it at once.
  void AfterPiece(int value, int rank, const Box& box) {
    for (int i = 0; i < num_ops(); ++i) {
      if (!IsCollective(i) || body().ops[i].operands[0] != value) continue;
      if (asyra::Sums(body().ops[i].def->collective)) {
        SendSummands(i, rank, box, true);
      } else if (MovesAtOnce(i)) {
        for (int k = 1; k <= n_; ++k) {
          Send(i, rank, (rank + k) % n_, box, true);
        }
      }
    }
  }

  // Sums --------------------------------------------------------------------

  // The chunks whose sum rank `owner` computes, of the operand of `op`.
  Box OwnedBox(int op, int owner) const {
    return ChunkOfAll(body_, walk_, ValueOf(op), owner * walk_.parts,
                      walk_.parts);
  }

  // Where `rank` has the sum of `summands` of what `owner` sums up.
  int& Landing(int op, int rank, int owner, RankSet summands) {
    return landing_.try_emplace({op, rank, owner, summands}, -1).first->second;
  }
  int LandingOf(int op, int rank, int owner, RankSet summands) {
    int& at = Landing(op, rank, owner, summands);
    if (at < 0) {
      at = AddSumBuffer(rank, body().ops[op].operands[0], OwnedBox(op, owner),
                        summands);
    }
    return at;
  }

  // A piece's parts, each to the rank that adds it up: that which keeps it, or
  // over two levels its neighbour on this host.
  void SendSummands(int op, int rank, const Box& box, bool computed) {
    if (shape_.route == PlanRoute::kRing) return;
    int from = buffer_of_[rank][body().ops[op].operands[0]];
    for (int k = 1; k < n_; ++k) {
      int owner = (rank + k) % n_, to = owner;
      if (shape_.route == PlanRoute::kTwoLevels) {
        to = RankAt(Host(rank), Seat(owner));
      }
      Box its = Intersection(box, OwnedBox(op, owner));
      if (to == rank || its.elements() == 0) continue;
      int actor = shape_.route == PlanRoute::kPull ? to : rank;
      int lane = shape_.route == PlanRoute::kTwoLevels
                     ? kNearLane
                     : LaneTo(actor, actor == rank ? to : rank);
      Copy({rank, from, computed}, to, LandingOf(op, to, owner, OnlyRank(rank)),
           its, lane);
    }
  }

  void Sums(int level) {
    for (int i = 0; i < num_ops(); ++i) {
      if (!IsCollective(i) || !asyra::Sums(body().ops[i].def->collective) ||
          walk_.level[body().ops[i].operands[0]] != level) {
        continue;
      }
      bool gathers =
          body().ops[i].def->collective == CollectiveKind::kAllReduce;
      for (int64_t p = 0; p < walk_.parts; ++p) {
        AddUp(i, p);
        if (gathers && MovesAtOnce()) GatherSums(i, p);
      }
      if (gathers && !MovesAtOnce()) GatherAllSums(i);
    }
  }
  bool MovesAtOnce() const {
    return shape_.route == PlanRoute::kDirect ||
           shape_.route == PlanRoute::kPull;
  }

  void AddUp(int op, int64_t part) {
    if (shape_.route == PlanRoute::kRing) return;  // it has added already
    if (shape_.route == PlanRoute::kTwoLevels) return SumsOfHosts(op, part);
    for (int r = 0; r < n_; ++r) {
      std::vector<int> buffers;
      for (int s = 0; s < n_; ++s) {
        buffers.push_back(s == r ? buffer_of_[r][body().ops[op].operands[0]]
                                 : LandingOf(op, r, r, OnlyRank(s)));
      }
      Sum(r, buffers, buffer_of_[r][ValueOf(op)],
          ChunkOfAll(body_, walk_, ValueOf(op), r * walk_.parts + part, 1));
    }
  }

  void Sum(int rank, const std::vector<int>& buffers, int to, const Box& box) {
    PlanStep step{.kind = PlanStep::kSum, .lane = kComputeLane};
    for (int buffer : buffers) {
      Need(rank, buffer, box);
      step.reads.push_back(Region(rank, buffer, box));
    }
    step.write = Region(rank, to, box);
    Add(rank, std::move(step));
  }

  RankSet RanksOfHost(int host) const {
    RankSet set = 0;
    for (int j = 0; j < shape_.inner; ++j) set |= OnlyRank(RankAt(host, j));
    return set;
  }

  // Each host adds up its ranks' summands, then the owner those of the hosts.
  void SumsOfHosts(int op, int64_t part) {
    int value = body().ops[op].operands[0];
    for (int k = 1; k <= hosts(); ++k) {
      for (int r = 0; r < n_; ++r) {
        int owner = RankAt((Host(r) + k) % hosts(), Seat(r));
        Box box = ChunkOfAll(body_, walk_, ValueOf(op),
                             owner * walk_.parts + part, 1);
        std::vector<int> buffers;
        for (int j = 0; j < shape_.inner; ++j) {
          int s = RankAt(Host(r), j);
          buffers.push_back(s == r ? buffer_of_[r][value]
                                   : LandingOf(op, r, owner, OnlyRank(s)));
        }
        int host_sum = buffers[0];
        if (shape_.inner > 1) {
          host_sum = LandingOf(op, r, owner, RanksOfHost(Host(r)));
          if (hosts() == 1) host_sum = buffer_of_[r][ValueOf(op)];
          Sum(r, buffers, host_sum, box);
        }
        if (owner == r) continue;
        Copy({r, host_sum, true}, owner,
             LandingOf(op, owner, owner, RanksOfHost(Host(r))), box, FarLane());
      }
    }
    for (int r = 0; hosts() > 1 && r < n_; ++r) {
      std::vector<int> buffers;
      for (int host = 0; host < hosts(); ++host) {
        bool own_summand = host == Host(r) && shape_.inner == 1;
        buffers.push_back(own_summand ? buffer_of_[r][value]
                                      : LandingOf(op, r, r, RanksOfHost(host)));
      }
      Sum(r, buffers, buffer_of_[r][ValueOf(op)],
          ChunkOfAll(body_, walk_, ValueOf(op), r * walk_.parts + part, 1));
    }
  }

  // The second half of an all_reduce.
  void GatherAllSums(int op) {
    std::vector<Source> sources;
    for (int r = 0; r < n_; ++r) {
      sources.push_back({r, buffer_of_[r][ValueOf(op)], true});
    }
    Gather(sources, ValueOf(op));
  }

  void GatherSums(int op, int64_t part) {
    int value = ValueOf(op);
    for (int k = 1; k < n_; ++k) {
      for (int r = 0; r < n_; ++r) {
        int to = Peer(r, k);
        int actor = shape_.route == PlanRoute::kPull ? to : r;
        Copy({r, buffer_of_[r][value], true}, to, buffer_of_[to][value],
             ChunkOfAll(body_, walk_, value, r * walk_.parts + part, 1),
             LaneTo(actor, actor == r ? to : r));
      }
    }
  }

  // Rings that add ----------------------------------------------------------

  // The collective that adds up what pieces of `level` make, in a ring; -1.
  int RingSumOf(int level) const {
    if (shape_.route != PlanRoute::kRing) return -1;
    for (int i = 0; i < num_ops(); ++i) {
      if (asyra::Sums(body().ops[i].def->collective) &&
          walk_.level[body().ops[i].operands[0]] == level) {
        return i;
      }
    }
    return -1;
  }
  bool IsRingOfSums(int level) const { return RingSumOf(level) >= 0; }

  // Shard s begins at rank s + 1; each rank adds its summand and passes the sum
  // on. What comes lands in two places by turns: before the third comes, the
  // receiver has acknowledged that it has read the first.
  void RingOfSums(int level) {
    int op = RingSumOf(level), value = body().ops[op].operands[0];
    std::vector<RingHop> previous(n_);
    for (int hop = 0; hop < n_; ++hop) {
      std::vector<RingHop> next(n_);
      for (int64_t p = 0; p < walk_.parts; ++p) {
        for (int r = 0; r < n_; ++r) {
          int64_t shard = (r + 2 * n_ - 1 - hop) % n_;
          int64_t chunk = shard * walk_.parts + p;
          PiecesOf(level, r, {chunk, 1});
          Box box = ChunkOfAll(body_, walk_, ValueOf(op), chunk, 1);
          int have = buffer_of_[r][value];
          if (hop > 0) {
            have = AddToRing(op, r, hop, box, previous[r]);
            next[r].acks.push_back(last_ack_);
          }
          if (hop + 1 == n_) continue;
          int to = (r + 1) % n_;
          int landing = RingLanding(op, to, hop, shard, p);
          // Acknowledged by `to` when it went on from the hop before the last.
          if (hop >= 2) Wait(r, 1, previous[to].acks[p]);
          Copy({r, have, true}, to, landing, box, 1);
          next[to].landings.push_back(landing);
        }
      }
      previous = std::move(next);
    }
  }

  // What came to a rank in one hop, and its acknowledgements in it, by part.
  struct RingHop {
    std::vector<int> landings;
    std::vector<Mark> acks;
  };

  int AddToRing(int op, int rank, int hop, const Box& box,
                const RingHop& came) {
    int value = body().ops[op].operands[0];
    int landing = -1;
    for (int buffer : came.landings) {
      if (plan_.buffers[rank][buffer].box == box) landing = buffer;
    }
    RankSet summands = plan_.buffers[rank][landing].summands | OnlyRank(rank);
    int to = hop + 1 == n_ ? buffer_of_[rank][ValueOf(op)]
                           : AddSumBuffer(rank, value, box, summands);
    Sum(rank, {landing, buffer_of_[rank][value]}, to, box);
    // Only what lands there again waits for it.
    last_ack_ = {};
    if (hop + 2 < n_) {
      last_ack_ = Post(rank, kComputeLane, (rank + n_ - 1) % n_, 1, kAck);
    }
    return to;
  }

  int RingLanding(int op, int rank, int hop, int64_t shard, int64_t part) {
    RankSet summands = 0;
    for (int k = 0; k <= hop; ++k) {
      summands |= OnlyRank(static_cast<int>((shard + 1 + k) % n_));
    }
    PlanBuffer buffer{.value = body().ops[op].operands[0],
                      .box = ChunkOfAll(body_, walk_, ValueOf(op),
                                        shard * walk_.parts + part, 1),
                      .summands = summands};
    auto [at, added] = slot_.try_emplace({op, rank, hop % 2, part}, 0);
    if (!added) buffer.offset = at->second;
    int made = AddBuffer(rank, buffer);
    at->second = plan_.buffers[rank][made].offset;
    return made;
  }

  // -------------------------------------------------------------------------

  // All that came is there, and all that others read has been read.
  void End() {
    for (int r = 0; r < n_; ++r) {
      std::vector<Mark> marks = acks_[r];
      for (const auto& of_buffer : arrivals_[r]) {
        for (const Arrival& arrival : of_buffer) {
          marks.push_back(arrival.compute);
        }
      }
      WaitForAll(r, marks);
      DropImpliedWaits(&plan_.steps[r]);
    }
  }

  // Waits that another one of the same signal follows at once.
  void DropImpliedWaits(std::vector<PlanStep>* steps) const {
    // By lane, the signals awaited next, before any other step.
    std::vector<std::set<int>> next(plan_.lanes.size());
    std::vector<PlanStep> kept;
    for (auto step = steps->rbegin(); step != steps->rend(); ++step) {
      if (step->kind != PlanStep::kWait) {
        next[step->lane].clear();
      } else if (!next[step->lane].insert(step->signal).second) {
        continue;
      }
      kept.push_back(std::move(*step));
    }
    steps->assign(std::make_move_iterator(kept.rbegin()),
                  std::make_move_iterator(kept.rend()));
  }

  const GroupBody& body_;
  const PlanShape& shape_;
  PlanWalk walk_;
  int n_;
  ChunkPlan plan_;
  std::vector<std::vector<int>> buffer_of_;  // by rank and value
  std::map<int, int64_t> used_;              // of the workspace, by rank
  std::map<std::tuple<int, int, int, int, Use>, int> signal_of_;
  std::vector<int> posted_, awaited_;                        // by signal
  std::vector<std::vector<std::vector<Arrival>>> arrivals_;  // rank, buffer
  std::vector<std::vector<Mark>> acks_;   // by rank that waits for them
  std::set<std::pair<int, int>> copied_;  // rank and value
  std::map<std::tuple<int, int, int, RankSet>, int> landing_;
  std::map<std::tuple<int, int, int, int64_t>, int64_t> slot_;
  Mark last_ack_;
};

}  // namespace

absl::StatusOr<int64_t> ChunksOfARank(const GroupBody& body,
                                      const PlanShape& shape) {
  ASYRA_ASSIGN_OR_RETURN(PlanWalk walk, FindWalk(body, shape.parts));
  return PlanMaker(body, shape, std::move(walk)).MostChunks();
}

absl::Status CheckPlanShape(const GroupBody& body, const PlanShape& shape) {
  ASYRA_ASSIGN_OR_RETURN(PlanWalk walk, FindWalk(body, shape.parts));
  return PlanMaker(body, shape, std::move(walk)).CheckShape();
}

absl::StatusOr<ChunkPlan> MakePlan(const GroupBody& body,
                                   const PlanShape& shape) {
  ASYRA_ASSIGN_OR_RETURN(PlanWalk walk, FindWalk(body, shape.parts));
  return PlanMaker(body, shape, std::move(walk)).Make();
}

}  // namespace asyra
