#include "ir/plans/plan_moves.h"

#include "absl/algorithm/container.h"

namespace asyra {
namespace {

// The order in which ranks serve each other: first whose turn it is.
int Peer(int rank, int k, int ranks) { return (rank - k + ranks) % ranks; }

}  // namespace

bool PlanMoves::MovesAtOnce(int op) const {
  return b_.KindOf(op) != CollectiveKind::kAllGather || b_.MovesAtOnce();
}

bool PlanMoves::IsGathered(int value) const {
  return b_.IsComputed(value) && b_.KindOf(value - b_.body().num_operands) ==
                                     CollectiveKind::kAllGather;
}

void PlanMoves::SendAll(int op, bool computed) {
  int value = b_.OperandOf(op), n = b_.ranks();
  if (!MovesAtOnce(op)) {
    std::vector<Source> sources;
    for (int r = 0; r < n; ++r) {
      sources.push_back({r, b_.BufferOf(r, value), computed});
    }
    Gather(sources, b_.ValueOf(op));
    for (int r = 0; r < n; ++r) SendOwn(op, r);
    return;
  }
  for (int k = 0; k < n; ++k) {
    for (int64_t p = 0; p < b_.walk().parts; ++p) {
      for (int r = 0; r < n; ++r) {
        for (int s = 0; s < n; ++s) {
          int64_t chunk = s * b_.walk().parts + p;
          Send(op, r, Peer(r, k, n), b_.ChunkBox(value, r, chunk, 1), computed);
        }
      }
      b_.Exchange();
    }
  }
}

void PlanMoves::SendComputed(int op, int rank, const Box& box) {
  int n = b_.ranks();
  for (int k = 1; k <= n; ++k) Send(op, rank, (rank + k) % n, box, true);
}

// Sends what rank `to` holds of the collective's result in this box of rank
// `from`'s operand.
void PlanMoves::Send(int op, int from, int to, const Box& box, bool computed) {
  int value = b_.ValueOf(op);
  if (from == to && IsGathered(value)) {
    if (!computed) SendOwn(op, from);
    return;
  }
  Box its = Intersection(box, b_.BoxOf(value, to));
  int queue = from == to ? 1 : b_.QueueBetween(from, to);
  b_.Copy({from, b_.BufferOf(from, b_.OperandOf(op)), computed}, to,
          b_.BufferOf(to, value), its, queue);
}

void PlanMoves::SendOwn(int op, int rank) {
  int value = b_.ValueOf(op);
  if (!IsGathered(value)) return;
  if (absl::c_linear_search(b_.body().results, value)) CopyOwnPart(rank, value);
}

PlanRegion PlanMoves::Read(int rank, int value, const Box& box) {
  int own = OwnPart(rank, value, box);
  if (own >= 0) return {rank, own, box};
  if (NeedsOwnPart(rank, value, box)) CopyOwnPart(rank, value);
  int buffer = b_.BufferOf(rank, value);
  b_.Need(rank, buffer, box);
  return {rank, buffer, box};
}

// Returns the buffer in which a reader of a gather's result may read it in
// place: the rank's own part of the operand; -1 if it may not.
int PlanMoves::OwnPart(int rank, int value, const Box& box) const {
  if (!IsGathered(value)) return -1;
  int operand = b_.OperandOf(value - b_.body().num_operands);
  int own = b_.BufferOf(rank, operand);
  return b_.buffer(rank, own).box.Contains(box) ? own : -1;
}

bool PlanMoves::NeedsOwnPart(int rank, int value, const Box& box) const {
  if (!IsGathered(value)) return false;
  int operand = b_.OperandOf(value - b_.body().num_operands);
  return Overlap(b_.BoxOf(operand, rank), box);
}

// Copies the rank's own part of a gather's result to its place in the result:
// if the body gives it, or a piece reads it together with others' parts.
void PlanMoves::CopyOwnPart(int rank, int value) {
  if (!copied_.insert({rank, value}).second) return;
  int operand = b_.OperandOf(value - b_.body().num_operands);
  b_.Copy({rank, b_.BufferOf(rank, operand), b_.IsComputed(operand)}, rank,
          b_.BufferOf(rank, value), b_.BoxOf(operand, rank), 1);
}

void PlanMoves::GatherSums(int op, int64_t part) {
  int value = b_.ValueOf(op), n = b_.ranks();
  for (int k = 1; k < n; ++k) {
    for (int r = 0; r < n; ++r) {
      int to = Peer(r, k, n);
      b_.Copy({r, b_.BufferOf(r, value), true}, to, b_.BufferOf(to, value),
              b_.OwnChunk(value, r, part), b_.QueueBetween(r, to));
    }
  }
  b_.Exchange();
}

void PlanMoves::GatherAllSums(int op) {
  std::vector<Source> sources;
  for (int r = 0; r < b_.ranks(); ++r) {
    sources.push_back({r, b_.BufferOf(r, b_.ValueOf(op)), true});
  }
  Gather(sources, b_.ValueOf(op));
}

void PlanMoves::Gather(const std::vector<Source>& sources, int value) {
  b_.shape().route == PlanRoute::kRing ? RingGather(sources, value)
                                       : TwoLevelGather(sources, value);
}

void PlanMoves::RingGather(const std::vector<Source>& sources, int value) {
  int n = b_.ranks();
  for (int hop = 1; hop < n; ++hop) {
    for (int64_t p = 0; p < b_.walk().parts; ++p) {
      for (int r = 0; r < n; ++r) {
        int shard = (r + hop - 1) % n, to = (r + n - 1) % n;
        Box box = b_.OwnChunk(value, shard, p);
        Source source = sources[r];
        if (hop > 1) {
          source = {r, b_.BufferOf(r, value), false, b_.CameTo(r, value, box)};
        }
        b_.Copy(source, to, b_.BufferOf(to, value), box, 1,
                hop + 1 < n ? 1 : -1);
      }
      b_.Exchange();
    }
  }
}

void PlanMoves::TwoLevelGather(const std::vector<Source>& sources, int value) {
  int64_t parts = b_.walk().parts;
  auto pass_on = [&](int64_t part) {
    for (int k = 1; k < hosts_.hosts; ++k) {
      for (int r = 0; r < b_.ranks(); ++r) PassOnInHost(r, value, part, k);
    }
  };
  bool beside_next = b_.shape().exchanges;
  for (int64_t p = 0; p < parts; ++p) {
    if (beside_next && p > 0) pass_on(p - 1);
    for (int r = 0; r < b_.ranks(); ++r) {
      SendToHosts(sources[r], value, b_.OwnChunk(value, r, p));
    }
    if (!beside_next) pass_on(p);
    b_.Exchange();
  }
  if (beside_next) pass_on(parts - 1);
  b_.Exchange();
}

void PlanMoves::SendToHosts(const Source& source, int value, const Box& box) {
  int inner = hosts_.inner, hosts = hosts_.hosts;
  int host = hosts_.Host(source.rank), seat = hosts_.Seat(source.rank);
  for (int k = 1; k < hosts; ++k) {
    int to = hosts_.RankAt((host + hosts - k) % hosts, seat);
    b_.Copy(source, to, b_.BufferOf(to, value), box, PlanHosts::kFarQueue,
            inner > 1 ? PlanHosts::kNearQueue : -1);
  }
  for (int k = 1; k < inner; ++k) {
    int to = hosts_.RankAt(host, (seat + inner - k) % inner);
    b_.Copy(source, to, b_.BufferOf(to, value), box, PlanHosts::kNearQueue);
  }
}

void PlanMoves::PassOnInHost(int rank, int value, int64_t part, int distance) {
  int inner = hosts_.inner, host = hosts_.Host(rank), seat = hosts_.Seat(rank);
  int origin = hosts_.RankAt((host + distance) % hosts_.hosts, seat);
  Box box = b_.OwnChunk(value, origin, part);
  for (int j = 1; j < inner; ++j) {
    int to = hosts_.RankAt(host, (seat + inner - j) % inner);
    b_.Copy(
        {rank, b_.BufferOf(rank, value), false, b_.CameTo(rank, value, box)},
        to, b_.BufferOf(to, value), box, PlanHosts::kNearQueue);
  }
}

}  // namespace asyra
