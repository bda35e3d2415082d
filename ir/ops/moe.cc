// Mixture of experts. Tokens are sent to buffers of a fixed size, one for each
// expert, as in GShard (Lepikhin et al. 2020, section 2.2): shapes are static,
// and moving tokens to the devices that have their experts is a redistribution
// of the buffers from "sharded by tokens" to "sharded by experts", which is an
// all_to_all.
//
//   weights, experts = moe_router(logits)
//   rows = moe_dispatch(x, experts)              [..., expert, slot, hidden]
//   rows = grouped_matmul(rows, w) ...
//   y = moe_combine(rows, experts, weights)
//
// Each `group_size` consecutive tokens form a group, and every expert has
// `capacity` slots for each group, so that groups, and with them slots, can be
// sharded. Choices take the slots of their expert in order of (token, choice);
// those that find none left are dropped. With capacity = group_size none is:
// a token chooses an expert once.
#include "ir/ops/expert_choices.h"
#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

// routing -------------------------------------------------------------------

// The slots of the choices [lead, tokens, k] of one device.
class Slots {
 public:
  static constexpr int64_t kDropped = -1;

  // `experts` in [0, num_experts), in groups of `group_size` tokens.
  static absl::StatusOr<Slots> Of(const Tensor& experts, int64_t num_experts,
                                  int64_t group_size, int64_t capacity) {
    Slots slots;
    slots.experts_ = experts.ToInts();
    int64_t choices = experts.size(experts.rank() - 1) * group_size;
    std::vector<int64_t> taken(num_experts, 0);
    int64_t groups = experts.size(experts.rank() - 2) / group_size;
    for (size_t i = 0; i < slots.experts_.size(); ++i) {
      int64_t at = static_cast<int64_t>(i);
      if (at % choices == 0) std::fill(taken.begin(), taken.end(), 0);
      int64_t expert = slots.experts_[i];
      if (expert < 0 || expert >= num_experts) {
        return Invalid("expert {} is not in [0, {})", expert, num_experts);
      }
      int64_t slot = taken[expert]++;
      slots.slots_.push_back(
          slot < capacity ? at / choices % groups * capacity + slot : kDropped);
    }
    return slots;
  }

  int64_t size() const { return static_cast<int64_t>(experts_.size()); }
  int64_t expert(int64_t choice) const { return experts_[choice]; }
  // Among all slots of that expert on this device, or kDropped.
  int64_t slot(int64_t choice) const { return slots_[choice]; }

 private:
  std::vector<int64_t> experts_, slots_;
};

absl::Status RequireExperts(const OpCall& call, int experts, int tokens_of,
                            int64_t tokens) {
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, experts));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, experts, 2));
  const Type& type = call.operands[experts];
  ASYRA_RETURN_IF_ERROR(RequireGroups(call, tokens));
  if (type.size(type.rank() - 2) != tokens) {
    return Invalid("experts are for {} tokens, {} has {}",
                   type.size(type.rank() - 2),
                   call.def.operands[tokens_of].name, tokens);
  }
  return absl::OkStatus();
}

// The part of a tensor [..., experts, slots, hidden] that a choice reads or
// writes on a device that has experts [first, first + count).
struct Buffers {
  int64_t first, count, slots, hidden, per_lead;  // choices of one lead index
  // Element of the row's first value, or -1 where it is not here.
  int64_t Row(const Slots& routing, int64_t choice) const {
    int64_t expert = routing.expert(choice) - first;
    int64_t slot = routing.slot(choice);
    if (slot == Slots::kDropped || expert < 0 || expert >= count) return -1;
    return ((choice / per_lead * count + expert) * slots + slot) * hidden;
  }
};

Buffers BuffersOf(const Type& type, const Tensor& rows, const Tensor& experts,
                  const RefCall& call) {
  int rank = rows.rank();
  return {
      .first = ShardStart(type.dims[rank - 3], call.mesh, call.device),
      .count = rows.size(rank - 3),
      .slots = rows.size(rank - 2),
      .hidden = rows.size(rank - 1),
      .per_lead = experts.size(experts.rank() - 1) * experts.size(rank - 3)};
}

// moe_dispatch --------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferDispatch(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 2));
  Type rows = call.operands[0];
  int64_t tokens = rows.size(rows.rank() - 2);
  ASYRA_RETURN_IF_ERROR(RequireExperts(call, 1, 0, tokens));
  ASYRA_RETURN_IF_ERROR(RequireSameLead(call, 0, 2, 1, 2));
  for (const char* name : {"num_experts", "capacity"}) {
    if (call.attrs.Int(name) < 1) {
      return Invalid("{} is {}", name, call.attrs.Int(name));
    }
  }
  int64_t groups = tokens / call.attrs.Int("group_size"), slots = 0;
  if (__builtin_mul_overflow(groups, call.attrs.Int("capacity"), &slots)) {
    return Invalid("{} groups of capacity {} are too many slots", groups,
                   call.attrs.Int("capacity"));
  }
  rows.dims.end()[-2] = {call.attrs.Int("num_experts"), {}};
  rows.dims.insert(rows.dims.end() - 1, {slots, {}});
  return std::vector<Type>{rows};
}

// Groups are parallel, as are experts: a device without a choice's expert has
// no slot for it.
absl::StatusOr<AxisRule> DispatchAxes(const OpCall& call) {
  int64_t s = call.attrs.Int("group_size"), c = call.attrs.Int("capacity");
  return ParseAxisRule(
      fmt::format("... (g !s={}) h, ... (g !s={}) !k -> ... @e (g !c={}) h", s,
                  s, c),
      call.operands, call.results, Linearity::kFirst);
}

void ResizeDispatch(AttrMap* attrs, absl::Span<const Type> results) {
  attrs->Set("num_experts", results[0].size(results[0].rank() - 3));
}

absl::Status DispatchReference(const RefCall& call) {
  const Tensor& x = call.operands[0];
  const Tensor& experts = call.operands[1];
  Tensor& out = call.results[0];
  ASYRA_ASSIGN_OR_RETURN(
      Slots slots,
      Slots::Of(experts, call.attrs.Int("num_experts"),
                call.attrs.Int("group_size"), call.attrs.Int("capacity")));
  Buffers buffers = BuffersOf(call.result_types[0], out, experts, call);
  int64_t k = experts.size(experts.rank() - 1), size = SizeOf(x.dtype());
  for (int64_t choice = 0; choice < slots.size(); ++choice) {
    int64_t row = buffers.Row(slots, choice);
    if (row < 0) continue;
    std::memcpy(out.mutable_data() + row * size,
                x.data() + choice / k * buffers.hidden * size,
                buffers.hidden * size);
  }
  return absl::OkStatus();
}

// The gradient of a token is the sum over its kept choices.
Gradients DispatchVjp(Gradient& g) {
  Shape choices = g.type(g.x(1)).shape();
  ValueId ones = g.Op("broadcast", {g.Scalar(1, g.x(0))},
                      {{"shape", Ints(choices.begin(), choices.end())}});
  return {g.Op("moe_combine", {g.dy(), g.x(1), ones},
               {{"group_size", g.attrs().Int("group_size")}}),
          kNoValue};
}

// moe_collect and moe_combine -----------------------------------------------

// Rows [..., e, slots, h] and experts [..., tokens, k].
absl::Status CheckRows(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 3));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 1, 2));
  const Type& rows = call.operands[0];
  const Type& experts = call.operands[1];
  int64_t tokens = experts.size(experts.rank() - 2);
  ASYRA_RETURN_IF_ERROR(RequireExperts(call, 1, 1, tokens));
  ASYRA_RETURN_IF_ERROR(RequireSameLead(call, 0, 3, 1, 2));
  int64_t groups = tokens / call.attrs.Int("group_size");
  int64_t slots = rows.size(rows.rank() - 2);
  if (groups > 0 ? slots % groups != 0 : slots != 0) {
    return Invalid("{} slots are not a multiple of {} groups", slots, groups);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> InferCollect(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckRows(call));
  return InferCollected(call);
}

absl::StatusOr<std::vector<Type>> InferCombine(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckRows(call));
  return InferCombined(call);
}

int64_t CapacityOf(const Type& rows, const Type& experts, int64_t group_size) {
  int64_t groups = experts.size(experts.rank() - 2) / group_size;
  return groups > 0 ? rows.size(rows.rank() - 2) / groups : 1;
}

// The rows of experts on other devices are zero here: partial sums.
absl::StatusOr<AxisRule> CollectAxes(const OpCall& call) {
  int64_t c = CapacityOf(call.operands[0], call.operands[1],
                         call.attrs.Int("group_size"));
  return CollectRule(call, fmt::format("@e (g !c={})", c));
}

// Reads a row for each choice at most.
Work CollectWork(const OpCall& local) {
  Work work;
  double rows = static_cast<double>(local.operands[0].bytes());
  double hidden = static_cast<double>(local.operands[0].dims.back().size);
  double chosen =
      static_cast<double>(local.operands[1].num_elements()) * hidden;
  work.flops = 2 * chosen;
  work.read_bytes = std::min(
      rows, chosen * static_cast<double>(SizeOf(local.operands[0].dtype)));
  for (size_t i = 1; i < local.operands.size(); ++i) {
    work.read_bytes += static_cast<double>(local.operands[i].bytes());
  }
  work.write_bytes = static_cast<double>(local.results[0].bytes());
  return work;
}

// Calls visit(choice, its row's first element) for the kept ones.
template <typename Visit>
absl::Status ForEachRow(const RefCall& call, Visit visit) {
  const Type& type = call.operand_types[0];
  const Tensor& experts = call.operands[1];
  int64_t group_size = call.attrs.Int("group_size");
  ASYRA_ASSIGN_OR_RETURN(
      Slots slots,
      Slots::Of(experts, type.size(type.rank() - 3), group_size,
                CapacityOf(type, call.operand_types[1], group_size)));
  Buffers buffers = BuffersOf(type, call.operands[0], experts, call);
  for (int64_t choice = 0; choice < slots.size(); ++choice) {
    int64_t row = buffers.Row(slots, choice);
    if (row >= 0) visit(choice, row);
  }
  return absl::OkStatus();
}

absl::Status CollectReference(const RefCall& call) {
  const Tensor& rows = call.operands[0];
  int64_t size = SizeOf(rows.dtype());
  int64_t hidden = rows.size(rows.rank() - 1);
  return ForEachRow(call, [&](int64_t choice, int64_t row) {
    std::memcpy(call.results[0].mutable_data() + choice * hidden * size,
                rows.data() + row * size, hidden * size);
  });
}

absl::Status CombineReference(const RefCall& call) {
  std::vector<double> rows = call.operands[0].ToDoubles();
  std::vector<double> weights = call.operands[2].ToDoubles();
  int64_t hidden = call.operands[0].size(call.operands[0].rank() - 1);
  int64_t k = call.operands[1].size(call.operands[1].rank() - 1);
  std::vector<double> out(call.results[0].num_elements(), 0.0);
  ASYRA_RETURN_IF_ERROR(ForEachRow(call, [&](int64_t choice, int64_t row) {
    for (int64_t h = 0; h < hidden; ++h) {
      out[choice / k * hidden + h] += weights[choice] * rows[row + h];
    }
  }));
  call.results[0].SetAll(out);
  return absl::OkStatus();
}

// Values of choices [..., tokens, k, h] into their slots: as tokens of one
// choice each, they take the same ones.
ValueId ToSlots(Gradient& g, ValueId values) {
  const Type& rows = g.type(g.x(0));
  Shape shape = g.type(values).shape(), ids = g.type(g.x(1)).shape();
  int64_t k = ids.back(), group_size = g.attrs().Int("group_size");
  shape.erase(shape.end() - 2);
  shape.end()[-2] *= k;
  ids.end()[-2] *= k;
  ids.back() = 1;
  return g.Op("moe_dispatch",
              {g.Reshape(values, shape), g.Reshape(g.x(1), ids)},
              {{"num_experts", rows.size(rows.rank() - 3)},
               {"group_size", group_size * k},
               {"capacity", CapacityOf(rows, g.type(g.x(1)), group_size)}});
}

Gradients CollectVjp(Gradient& g) { return {ToSlots(g, g.dy()), kNoValue}; }

Gradients CombineVjp(Gradient& g) {
  Shape token = g.type(g.dy()).shape(), choice = g.type(g.x(1)).shape();
  int64_t last = static_cast<int64_t>(choice.size());
  token.insert(token.end() - 1, 1);
  choice.push_back(1);
  ValueId dy = g.Reshape(g.dy(), token);
  ValueId rows = g.Op("moe_collect", {g.x(0), g.x(1)},
                      {{"group_size", g.attrs().Int("group_size")}});
  ValueId dw = g.Op("reduce_sum", {g.Mul(rows, dy)},
                    {{"dims", Ints{last}}, {"keep", false}});
  return {ToSlots(g, g.Mul(g.Reshape(g.x(2), choice), dy)), kNoValue, dw};
}

AttrDef GroupSize() {
  return {"group_size", AttrKind::kInt, "consecutive tokens that share slots",
          int64_t{1}};
}

}  // namespace

std::vector<OpDef> MoeOps() {
  return {
      RouterOp(),
      {.name = "moe_dispatch",
       .summary = "tokens x[..., tokens, h] in the slots of the experts they "
                  "go to, [..., expert, slot, h]; zeros in free slots",
       .operands = {{"x"}, {"experts"}},
       .attrs = {{"num_experts", AttrKind::kInt, "number of experts"},
                 GroupSize(),
                 {"capacity", AttrKind::kInt,
                  "slots of an expert for each group; choices beyond are "
                  "dropped",
                  int64_t{1}}},
       .infer = InferDispatch,
       .axes = DispatchAxes,
       .resize = ResizeDispatch,
       .work = MoveWork,
       .vjp = Vjp<DispatchVjp>,
       .reference = DispatchReference,
       .samples = {{"moe_dispatch(f32[4,6], i64[4,2]) {num_experts=4}", 0, 3},
                   {"moe_dispatch(f32[2,8,6], i64[2,8,2]) {num_experts=4, "
                    "group_size=4, capacity=4}",
                    0, 3},
                   {"moe_dispatch(bf16[8,2], i32[8,2]) {num_experts=2, "
                    "group_size=4, capacity=2}",
                    0, 1}}},
      {.name = "moe_collect",
       .summary = "the row of each choice, [..., token, choice, h]; zeros for "
                  "dropped ones",
       .operands = {{"rows"}, {"experts"}},
       .attrs = {GroupSize()},
       .infer = InferCollect,
       .axes = CollectAxes,
       .work = CollectWork,
       .vjp = Vjp<CollectVjp>,
       .reference = CollectReference,
       .samples = {{"moe_collect(f32[4,8,6], i64[8,2])", 0, 3},
                   {"moe_collect(f32[2,4,4,6], i64[2,8,2]) {group_size=4}", 0,
                    3}}},
      {.name = "moe_combine",
       .summary = "the weighted sum of each token's rows, [..., token, h]; "
                  "dropped choices add nothing",
       .operands = {{"rows"}, {"experts"}, {"weights"}},
       .attrs = {GroupSize()},
       .infer = InferCombine,
       .axes = CollectAxes,
       .work = CollectWork,
       .vjp = Vjp<CombineVjp>,
       .reference = CombineReference,
       .samples = {{"moe_combine(f32[4,8,6], i64[8,2], f32[8,2])", 0, 3},
                   {"moe_combine(f32[2,4,4,6], i64[2,8,2], f32[2,8,2]) "
                    "{group_size=4}",
                    0, 3}}}};
}

}  // namespace asyra::ops
