// Collectives; `shard`, which undoes an all_gather without communication; and
// `stack_partial`, which splits a reduce_scatter into moving the summands and a
// reduction.
//
// A collective has one operand or several, which it moves at once: result i
// equals that of the collective on operand i alone. They may differ in element
// type, shape and rank.
#include "ir/copy_engine.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

const AxisList& AxesOf(const OpCall& call) {
  return call.attrs.Get<AxisList>("axes");
}

// Takes `axes` off the inner end of a dimension.
absl::Status TakeInner(Type* type, int dim, const AxisList& axes,
                       const Mesh& mesh) {
  AxisList& have = type->dims[dim].axes;
  if (axes.empty() || have.size() < axes.size() ||
      !std::equal(axes.begin(), axes.end(), have.end() - axes.size())) {
    return Invalid("dim {} is sharded over {}, it should end in {}", dim,
                   AxesToString(have, mesh), AxesToString(axes, mesh));
  }
  have.resize(have.size() - axes.size());
  return absl::OkStatus();
}

absl::Status TakePartial(Type* type, const AxisList& axes, const Mesh& mesh) {
  for (AxisId axis : axes) {
    if (!Contains(type->partial, axis)) {
      return Invalid("the operand is not partial over {}", mesh.name(axis));
    }
    type->partial.erase(
        std::find(type->partial.begin(), type->partial.end(), axis));
  }
  return absl::OkStatus();
}

// Makes an operand's type that of its result.
using Redistribute = absl::Status (*)(const OpCall& call, const Mesh& mesh,
                                      Type* type);

absl::Status AllReduceType(const OpCall& call, const Mesh& mesh, Type* type) {
  return TakePartial(type, AxesOf(call), mesh);
}

absl::Status AllGatherType(const OpCall& call, const Mesh& mesh, Type* type) {
  ASYRA_ASSIGN_OR_RETURN(int dim, RequireDim(call, "dim", type->rank()));
  return TakeInner(type, dim, AxesOf(call), mesh);
}

absl::Status ReduceScatterType(const OpCall& call, const Mesh& mesh,
                               Type* type) {
  ASYRA_ASSIGN_OR_RETURN(int dim, RequireDim(call, "dim", type->rank()));
  ASYRA_RETURN_IF_ERROR(TakePartial(type, AxesOf(call), mesh));
  return PutInner(type, dim, AxesOf(call), mesh);
}

absl::Status AllToAllType(const OpCall& call, const Mesh& mesh, Type* type) {
  ASYRA_ASSIGN_OR_RETURN(int from, RequireDim(call, "from", type->rank()));
  ASYRA_ASSIGN_OR_RETURN(int to, RequireDim(call, "to", type->rank()));
  ASYRA_RETURN_IF_ERROR(TakeInner(type, from, AxesOf(call), mesh));
  return PutInner(type, to, AxesOf(call), mesh);
}

// Each part of the dimension moves to another device: its axes stay.
absl::Status ShiftType(const OpCall& call, const Mesh& mesh, Type* type) {
  ASYRA_ASSIGN_OR_RETURN(int dim, RequireDim(call, "dim", type->rank()));
  const AxisList& axes = AxesOf(call);
  for (AxisId axis : axes) {
    if (Contains(type->dims[dim].axes, axis)) continue;
    return Invalid("dim {} is sharded over {}, not over {}", dim,
                   AxesToString(type->dims[dim].axes, mesh), mesh.name(axis));
  }
  int64_t by = call.attrs.Int("by"), devices = mesh.size(axes);
  if (by > 0 && by < devices) return absl::OkStatus();
  return Invalid("by is {}, it must be from 1 to {}: {} has {} devices", by,
                 devices - 1, AxesToString(axes, mesh), devices);
}

template <Redistribute kOne>
absl::StatusOr<std::vector<Type>> EachType(const OpCall& call,
                                           const Mesh& mesh) {
  std::vector<Type> types(call.operands.begin(), call.operands.end());
  for (size_t i = 0; i < types.size(); ++i) {
    absl::Status status = kOne(call, mesh, &types[i]);
    if (status.ok()) continue;
    if (types.size() == 1) return status;
    return Annotate(status, fmt::format("operand {}", i));
  }
  return types;
}

absl::StatusOr<std::vector<Type>> ShardTypes(const OpCall& call,
                                             const Mesh& mesh) {
  Type type = call.operands[0];
  ASYRA_ASSIGN_OR_RETURN(int dim, RequireDim(call, "dim", type.rank()));
  ASYRA_RETURN_IF_ERROR(PutInner(&type, dim, AxesOf(call), mesh));
  return std::vector<Type>{type};
}

// None of them changes the global value, but shift, which moves its parts. So a
// part of the operand along any dimension gives that part of the result. Along
// a dimension whose axes change it is a part of each shard on both sides: a
// tile inside these axes. With several operands no dimension is bound: tiles
// are cut before collectives are joined.
absl::StatusOr<AxisRule> Axes(const OpCall& call) {
  if (call.operands.size() > 1) {
    AxisRule rule;
    for (const Type& type : call.operands) {
      rule.operands.emplace_back(static_cast<size_t>(type.rank()));
    }
    rule.results = rule.operands;
    return rule;
  }
  std::string dims = DimSpec(0, call.operands[0].rank());
  return ParseAxisRule(dims + " -> " + dims, call.operands, call.results);
}

Tensor Sum(absl::Span<const Tensor> parts) {
  Tensor sum(parts[0].dtype(), parts[0].shape());
  for (int64_t i = 0; i < sum.num_elements(); ++i) {
    if (IsFloat(sum.dtype())) {
      double value = 0;
      for (const Tensor& part : parts) value += part.Get(i);
      sum.Set(i, value);
    } else {
      int64_t value = 0;
      for (const Tensor& part : parts) value += part.GetInt(i);
      sum.SetInt(i, value);
    }
  }
  return sum;
}

// Part `index` of `count` equal ones.
Tensor Part(const Tensor& whole, int dim, size_t index, size_t count) {
  int64_t size = whole.size(dim) / static_cast<int64_t>(count);
  return whole.Slice(dim, static_cast<int64_t>(index) * size, size);
}

int DimOf(const GroupCall& call, std::string_view name) {
  return NormalizeDim(call.attrs.Int(name), call.operands[0].rank());
}

absl::Status AllReduce(const GroupCall& call) {
  Tensor sum = Sum(call.operands);
  for (Tensor& result : call.results) result = sum;
  return absl::OkStatus();
}

absl::Status AllGather(const GroupCall& call) {
  Tensor whole = Tensor::Concat(call.operands, DimOf(call, "dim"));
  for (Tensor& result : call.results) result = whole;
  return absl::OkStatus();
}

absl::Status ReduceScatter(const GroupCall& call) {
  Tensor sum = Sum(call.operands);
  for (size_t i = 0; i < call.results.size(); ++i) {
    call.results[i] = Part(sum, DimOf(call, "dim"), i, call.results.size());
  }
  return absl::OkStatus();
}

absl::Status AllToAll(const GroupCall& call) {
  for (size_t i = 0; i < call.results.size(); ++i) {
    std::vector<Tensor> parts;
    for (const Tensor& operand : call.operands) {
      parts.push_back(Part(operand, DimOf(call, "to"), i, call.results.size()));
    }
    call.results[i] = Tensor::Concat(parts, DimOf(call, "from"));
  }
  return absl::OkStatus();
}

absl::Status Shift(const GroupCall& call) {
  size_t n = call.operands.size();
  auto by = static_cast<size_t>(call.attrs.Int("by"));
  for (size_t i = 0; i < n; ++i) {
    call.results[(i + by) % n] = call.operands[i];
  }
  return absl::OkStatus();
}

absl::Status ShardReference(const RefCall& call) {
  const AxisList& axes = call.attrs.Get<AxisList>("axes");
  int dim = NormalizeDim(call.attrs.Int("dim"), call.operands[0].rank());
  call.results[0] =
      Part(call.operands[0], dim, call.mesh.GroupIndex(call.device, axes),
           call.mesh.size(axes));
  return absl::OkStatus();
}

// Reads and writes the bytes of the result.
Work ShardWork(const OpCall& local) {
  double bytes = static_cast<double>(local.results[0].bytes());
  return {.flops = 0, .read_bytes = bytes, .write_bytes = bytes};
}

// stack_partial -------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferStack(const OpCall& call) {
  Type type = call.operands[0];
  type.dims.insert(type.dims.begin(), Dim{1, {}});
  return std::vector<Type>{type};
}

// Each device's summand is one of as many as the axes have devices.
absl::StatusOr<std::vector<Type>> StackTypes(const OpCall& call,
                                             const Mesh& mesh) {
  const AxisList& axes = AxesOf(call);
  Type type = call.operands[0];
  ASYRA_RETURN_IF_ERROR(TakePartial(&type, axes, mesh));
  int64_t parts = mesh.size(axes), bytes = 0;
  if (__builtin_mul_overflow(type.bytes(), parts, &bytes)) {
    return Invalid("{} stacked over {} = {} has more than 2^63 bytes",
                   ShapeToString(type.shape()), AxesToString(axes, mesh),
                   parts);
  }
  type.dims.insert(type.dims.begin(), Dim{parts, {}});
  ASYRA_RETURN_IF_ERROR(PutInner(&type, 0, axes, mesh));
  return std::vector<Type>{type};
}

// The new dimension is cut by devices alone, the others as in the operand.
absl::StatusOr<AxisRule> StackAxes(const OpCall& call) {
  std::string dims = DimSpec(0, call.operands[0].rank());
  return ParseAxisRule(dims + " -> !parts " + dims, call.operands,
                       call.results);
}

absl::Status StackReference(const RefCall& call) {
  Shape local = call.results[0].shape();
  call.results[0] = call.operands[0].Reshaped(local);
  return absl::OkStatus();
}

const AttrDef kAxes = {"axes", AttrKind::kAxes, "mesh axes, outermost first"};
const AttrDef kCtas = {"ctas", AttrKind::kInt,
                       "CTAs that carry it, each on an SM of its own; 0: as "
                       "the library chooses",
                       int64_t{0}};
const AttrDef kTransport = {"transport",
                            AttrKind::kString,
                            "what carries it: the library with its CTAs, or "
                            "copy engines",
                            std::string(kLibrary),
                            {kLibrary, kCopyEngine}};
const AttrDef kDim = {"dim", AttrKind::kInt, "dimension"};

// More than any device has SMs.
constexpr int64_t kMostCtas = 1024;

absl::StatusOr<std::vector<Type>> InferCollective(const OpCall& call) {
  int64_t ctas = call.attrs.Int("ctas");
  if (ctas < 0 || ctas > kMostCtas) {
    return Invalid("ctas is {}, it must be from 0 to {}", ctas, kMostCtas);
  }
  if (ctas > 0 && AsksForCopyEngine(call.attrs)) {
    return Invalid("ctas is {}, copy engines take none", ctas);
  }
  return std::vector<Type>(call.operands.begin(), call.operands.end());
}

OpDef Collective(std::string_view name, std::string_view summary,
                 CollectiveKind kind, std::vector<AttrDef> attrs,
                 absl::StatusOr<std::vector<Type>> (*distribute)(const OpCall&,
                                                                 const Mesh&),
                 absl::Status (*reference)(const GroupCall&),
                 std::vector<Sample> samples) {
  for (Sample& sample : samples) {
    if (sample.mesh.empty()) sample.mesh = "(a=2, b=2)";
  }
  attrs.push_back(kCtas);
  attrs.push_back(kTransport);
  return {.name = name,
          .summary = summary,
          .operands = {{"x", OperandDef::kVariadic}},
          .attrs = std::move(attrs),
          .infer = InferCollective,
          .axes = Axes,
          .distribute = distribute,
          .group_reference = reference,
          .samples = std::move(samples),
          .collective = kind,
          .in_place = kind == CollectiveKind::kAllReduce};
}

}  // namespace

std::vector<OpDef> CollectiveOps() {
  OpDef shard{
      .name = "shard",
      .summary =
          "each device keeps its own part of a value that is "
          "whole along `axes`; no communication",
      .operands = {{"x"}},
      .attrs = {kDim, kAxes},
      .infer = SameAsFirst,
      .axes = Axes,
      .distribute = ShardTypes,
      .work = ShardWork,
      .reference = ShardReference,
      .samples = {{"shard(f32[4,8]) {dim=1, axes=(b,a)}", -3, 3, "(a=2, b=2)"},
                  {"shard(i64[4@a,8]) {dim=0, axes=b}", -3, 3, "(a=2, b=2)"}}};
  OpDef stack{
      .name = "stack_partial",
      .summary =
          "the summands of a partial value over `axes`, one on each device, "
          "along a new leading dimension; no communication",
      .operands = {{"x"}},
      .attrs = {kAxes},
      .infer = InferStack,
      .axes = StackAxes,
      .distribute = StackTypes,
      .reference = StackReference,
      .samples = {{"stack_partial(f32[4,8] partial(a)) {axes=a}", -3, 3,
                   "(a=2, b=2)"},
                  {"stack_partial(bf16[4@b,6] partial(a)) {axes=a}", -3, 3,
                   "(a=2, b=2)"},
                  {"stack_partial(f32[2,4] partial(a,b)) {axes=(b,a)}", -3, 3,
                   "(a=2, b=2)"},
                  {"stack_partial(i64[4,6] partial(a,b)) {axes=b}", -3, 3,
                   "(a=2, b=2)"}},
      .is_view = true};
  return {
      Collective("all_reduce", "sums a partial value over `axes`",
                 CollectiveKind::kAllReduce, {kAxes}, EachType<AllReduceType>,
                 AllReduce,
                 {{"all_reduce(f32[4@b,6] partial(a)) {axes=a}"},
                  {"all_reduce(i64[4,6] partial(a,b)) {axes=(a,b)}"},
                  {"all_reduce(f32[4@b,6] partial(a), bf16[8] partial(a)) "
                   "{axes=a}"}}),
      Collective("all_gather", "makes `dim` whole along its inner axes `axes`",
                 CollectiveKind::kAllGather, {kDim, kAxes},
                 EachType<AllGatherType>, AllGather,
                 {{"all_gather(f32[4,8@(b,a)]) {dim=1, axes=(b,a)}"},
                  {"all_gather(f32[8@(a,b),6]) {dim=0, axes=b}"},
                  {"all_gather(bf16[4@b,8@a]) {dim=0, axes=b}"},
                  {"all_gather(f32[8@(a,b),6], i64[4@b], f32[4@b,2,2@a]) "
                   "{dim=0, axes=b}"}}),
      Collective("reduce_scatter",
                 "sums a partial value over `axes` and shards `dim` over them",
                 CollectiveKind::kReduceScatter, {kDim, kAxes},
                 EachType<ReduceScatterType>, ReduceScatter,
                 {{"reduce_scatter(f32[4@b,8] partial(a)) {dim=1, axes=a}"},
                  {"reduce_scatter(f32[8@a,6] partial(b)) {dim=0, axes=b}"},
                  {"reduce_scatter(f32[4,8] partial(a), f32[2,4] partial(a,b)) "
                   "{dim=-1, axes=a}"}}),
      Collective("all_to_all",
                 "moves the inner axes `axes` of dimension `from` to `to`",
                 CollectiveKind::kAllToAll,
                 {{"from", AttrKind::kInt, "dimension made whole"},
                  {"to", AttrKind::kInt, "dimension sharded instead"},
                  kAxes},
                 EachType<AllToAllType>, AllToAll,
                 {{"all_to_all(f32[4@a,6,8]) {from=0, to=2, axes=a, ctas=4}"},
                  {"all_to_all(f32[8,8@(a,b)]) {from=1, to=0, axes=(a,b)}"},
                  {"all_to_all(f32[2,8@a,4,6], f32[2,8@a,2,6], bf16[4@b,4@a,2])"
                   " {from=1, to=2, axes=a}"}}),
      Collective(
          "shift",
          "each device takes the part of `dim` that the device `by` places "
          "before it has, along `axes`, the first following the last",
          CollectiveKind::kShift,
          {kDim, {"by", AttrKind::kInt, "places, fewer than devices"}, kAxes},
          EachType<ShiftType>, Shift,
          {{"shift(f32[4,8@(a,b)]) {dim=1, by=3, axes=(a,b)}"},
           {"shift(bf16[8@(a,b),6]) {dim=0, by=1, axes=a}"},
           {"shift(f32[4,6@a]) {dim=1, by=1, axes=a}", -3, 3, "(a=2)"},
           {"shift(f32[4,6@a]) {dim=1, by=1, axes=a, transport=copy_engine}",
            -3, 3, "(a=2)"},
           {"shift(i64[8@(a,b),2], f32[4@b,4,6]) {dim=0, by=1, axes=b}"}}),
      shard,
      stack,
  };
}

}  // namespace asyra::ops
