#include "ir/plans/chunk_plan.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "fmt/format.h"
#include "ir/accumulation.h"

namespace asyra {
namespace {

// Row-major strides of a tensor that holds `box`, in elements.
Shape StridesOf(const Box& box) {
  Shape strides(box.size.size(), 1);
  for (int d = box.rank() - 2; d >= 0; --d) {
    strides[d] = strides[d + 1] * box.size[d + 1];
  }
  return strides;
}

int64_t FirstElement(const Box& what, const Box& box, const Shape& strides) {
  int64_t at = 0;
  for (int d = 0; d < box.rank(); ++d) {
    at += (what.start[d] - box.start[d]) * strides[d];
  }
  return at;
}

}  // namespace

bool Box::Contains(const Box& other) const {
  for (int d = 0; d < rank(); ++d) {
    if (other.start[d] < start[d] ||
        other.start[d] + other.size[d] > start[d] + size[d]) {
      return false;
    }
  }
  return true;
}

Box Intersection(const Box& a, const Box& b) {
  Box both = a;
  for (int d = 0; d < a.rank(); ++d) {
    int64_t end = std::min(a.start[d] + a.size[d], b.start[d] + b.size[d]);
    both.start[d] = std::max(a.start[d], b.start[d]);
    both.size[d] = std::max<int64_t>(0, end - both.start[d]);
  }
  return both;
}

bool Overlap(const Box& a, const Box& b) {
  for (int d = 0; d < a.rank(); ++d) {
    int64_t end = std::min(a.start[d] + a.size[d], b.start[d] + b.size[d]);
    if (end <= std::max(a.start[d], b.start[d])) return false;
  }
  return true;
}

std::string ToString(const Box& box) {
  std::string text = "[";
  for (int d = 0; d < box.rank(); ++d) {
    text += fmt::format("{}{}:{}", d == 0 ? "" : ", ", box.start[d],
                        box.start[d] + box.size[d]);
  }
  return text + "]";
}

void CopyBox(const std::byte* from, const Box& from_box, std::byte* to,
             const Box& to_box, const Box& what, int64_t element_bytes) {
  if (what.elements() == 0) return;
  Shape from_strides = StridesOf(from_box), to_strides = StridesOf(to_box);
  from += FirstElement(what, from_box, from_strides) * element_bytes;
  to += FirstElement(what, to_box, to_strides) * element_bytes;
  // Inner dimensions that are whole in both tensors are one run with the next.
  int outer = what.rank();
  int64_t run = element_bytes;
  while (outer > 0) {
    --outer;
    run *= what.size[outer];
    if (what.size[outer] != from_box.size[outer] ||
        what.size[outer] != to_box.size[outer]) {
      break;
    }
  }
  Shape at(outer, 0);
  while (true) {
    int64_t read = 0, write = 0;
    for (int d = 0; d < outer; ++d) {
      read += at[d] * from_strides[d];
      write += at[d] * to_strides[d];
    }
    std::memcpy(to + write * element_bytes, from + read * element_bytes, run);
    int d = outer - 1;
    while (d >= 0 && ++at[d] == what.size[d]) at[d--] = 0;
    if (d < 0) return;
  }
}

bool IsContiguous(const Box& what, const Box& box) {
  int d = 0;
  while (d < box.rank() && what.size[d] == 1) ++d;
  for (++d; d < box.rank(); ++d) {
    if (what.size[d] != box.size[d]) return false;
  }
  return true;
}

int64_t FirstElement(const Box& what, const Box& box) {
  return FirstElement(what, box, StridesOf(box));
}

bool operator==(const PlanRef& a, const PlanRef& b) {
  if (a.get() == b.get()) return true;
  return a.get() != nullptr && b.get() != nullptr && *a == *b;
}

Box BoxOf(const Type& type, int rank, int ranks) {
  Box box;
  for (const Dim& dim : type.dims) {
    int64_t size = dim.axes.empty() ? dim.size : dim.size / ranks;
    box.start.push_back(dim.axes.empty() ? 0 : rank * size);
    box.size.push_back(size);
  }
  return box;
}

int64_t BytesOf(const ChunkPlan& plan, const PlanBuffer& buffer) {
  return buffer.box.elements() * SizeOf(plan.types[buffer.value].dtype);
}

int64_t BytesOf(const ChunkPlan& plan, const PlanRegion& region) {
  return region.box.elements() * SizeOf(plan.dtype(region));
}

std::vector<int> SameValues(const Body& body) {
  std::vector<int> same(body.num_values());
  std::iota(same.begin(), same.end(), 0);
  for (size_t i = 0; i < body.ops.size(); ++i) {
    const BodyOp& op = body.ops[i];
    if (op.def->collective == CollectiveKind::kNone) continue;
    same[body.num_operands + i] = same[op.operands[0]];
  }
  return same;
}

bool JoinsStepBefore(const ChunkPlan& plan, int rank, size_t step) {
  if (step == 0) return false;
  const PlanStep& it = plan.steps[rank][step];
  const PlanStep& before = plan.steps[rank][step - 1];
  auto signals = [&](const PlanStep& one) {
    if (one.kind != PlanStep::kPost && one.kind != PlanStep::kWait)
      return false;
    const PlanSignal& signal = plan.signals[one.signal];
    return signal.from_rank != signal.to_rank;
  };
  return signals(it) && signals(before) && it.kind == before.kind &&
         it.queue == before.queue;
}

bool AddsToResult(const ChunkPlan& plan, const PlanStep& step) {
  return step.kind == PlanStep::kPiece && step.op >= 0 &&
         step.op < static_cast<int>(plan.body.ops.size()) &&
         step.reads.size() == plan.body.ops[step.op].operands.size() + 1;
}

namespace {

Type TypeOf(const ChunkPlan& plan, const PlanRegion& region) {
  return {plan.dtype(region), region.box.size};
}

std::vector<Type> TypesOf(const ChunkPlan& plan,
                          absl::Span<const PlanRegion> regions) {
  std::vector<Type> types;
  for (const PlanRegion& region : regions) {
    types.push_back(TypeOf(plan, region));
  }
  return types;
}

// The attributes of an op, or of the fusion of it and an add, for a piece of it
// with such a result.
AttrMap PieceAttrs(const BodyOp& op, bool adds, const Type& result) {
  AttrMap attrs = op.attrs;
  if (op.def->resize != nullptr) op.def->resize(&attrs, {&result, 1});
  if (!adds) return attrs;
  auto last = static_cast<int>(op.operands.size());
  BodyOp first{.def = op.def, .attrs = std::move(attrs)};
  for (int k = 0; k < last; ++k) first.operands.push_back(k);
  return {{"body", BodyRef(AddedTo(std::move(first), last))}};
}

}  // namespace

PieceCall::PieceCall(const ChunkPlan& plan, const PlanStep& piece)
    : operands_(TypesOf(plan, piece.reads)),
      result_(TypeOf(plan, piece.write)),
      adds_(AddsToResult(plan, piece)),
      attrs_(PieceAttrs(plan.body.ops[piece.op], adds_, result_)),
      call_{adds_ ? *FindOp("fusion") : *plan.body.ops[piece.op].def,
            attrs_,
            operands_,
            {&result_, 1}} {}

namespace {

std::string QueueName(const ChunkPlan& plan, int queue) {
  bool is_there = queue >= 0 && queue < static_cast<int>(plan.queues.size());
  return is_there ? plan.queues[queue].name : "no queue";
}

}  // namespace

std::string Describe(const ChunkPlan& plan, int rank, int step) {
  const PlanStep& s = plan.steps[rank][step];
  std::string place =
      s.line == 0 ? "" : fmt::format(" (line {}, column {})", s.line, s.column);
  std::string text = fmt::format("rank {}, step {}{}, on {}: ", rank, step,
                                 place, QueueName(plan, s.queue));
  auto region = [&](const PlanRegion& r) {
    std::string where =
        r.rank == rank ? "" : fmt::format(" of rank {}", r.rank);
    return fmt::format("%{}{}{}", plan.buffer(r).value, ToString(r.box), where);
  };
  auto signal = [&] {
    if (s.signal < 0 || s.signal >= static_cast<int>(plan.signals.size())) {
      return std::string("no signal");
    }
    const PlanSignal& its = plan.signals[s.signal];
    return fmt::format("{} {} from {} of rank {} to {} of rank {}", its.name,
                       s.count, QueueName(plan, its.from_queue), its.from_rank,
                       QueueName(plan, its.to_queue), its.to_rank);
  };
  bool has_op = s.op >= 0 && s.op < static_cast<int>(plan.body.ops.size());
  switch (s.kind) {
    case PlanStep::kPiece:
      return text +
             fmt::format(
                 "{}{} of {}", has_op ? plan.body.ops[s.op].def->name : "no op",
                 AddsToResult(plan, s) ? " and sum" : "", region(s.write));
    case PlanStep::kCopy:
      return text +
             fmt::format("copy {} to {}", region(s.reads[0]), region(s.write));
    case PlanStep::kSum:
      return text + fmt::format("sum of {} parts to {}", s.reads.size(),
                                region(s.write));
    case PlanStep::kWait:
      return text + "wait for " + signal();
    case PlanStep::kPost:
      return text + "post " + signal();
    case PlanStep::kExchange:
      text += fmt::format("exchange {}", s.count);
      for (size_t i = 0; i < std::min(s.reads.size(), s.writes.size()); ++i) {
        text += fmt::format("{} {} to rank {}", i == 0 ? ", sends" : ",",
                            region(s.reads[i]), s.writes[i].rank);
      }
      return text;
  }
  return text;
}

}  // namespace asyra
