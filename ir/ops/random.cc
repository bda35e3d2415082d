// Random values under an explicit key of two integers, seed and stream number.
// Element i of the whole tensor draws word i of their stream, wherever it is.
#include "ir/support/random.h"

#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"
#include "ir/ops/random_numbers.h"

namespace asyra::ops {
namespace {

// Error: not as many dimensions as axes that cut them.
absl::Status CheckCuts(const OpCall& call) {
  const Ints& dims = call.attrs.Get<Ints>("cut");
  const AxisList& axes = call.attrs.Get<AxisList>("axes");
  if (dims.size() != axes.size()) {
    return Invalid("cut has {} dims, axes has {}", dims.size(), axes.size());
  }
  auto rank = static_cast<int64_t>(call.attrs.Get<Ints>("shape").size());
  for (int64_t dim : dims) {
    if (dim < 0 || dim >= rank) {
      return Invalid("cut has dim {}, shape has {}", dim, rank);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckKey(const OpCall& call, int operand) {
  const Type& key = call.operands[operand];
  if (key == Type(DType::kI64, {2})) return absl::OkStatus();
  return Invalid("the key is {}, it should be i64[2]", ToString(key, {}));
}

// Calls visit(local element, element of the whole) for the local part of a
// distributed type.
template <typename Visit>
void ForEachElement(const Type& type, const Tensor& local, const Mesh& mesh,
                    int64_t device, Visit visit) {
  Shape strides = RowMajorStrides(type.shape()), start;
  for (const Dim& dim : type.dims) {
    start.push_back(ShardStart(dim, mesh, device));
  }
  for (int64_t i = 0; i < local.num_elements(); ++i) {
    int64_t rest = i, whole = 0;
    for (int d = local.rank(); d-- > 0; rest /= local.size(d)) {
      whole += (start[d] + rest % local.size(d)) * strides[d];
    }
    visit(i, whole);
  }
}

RandomStream StreamOf(const Tensor& key) {
  return RandomStream(static_cast<uint64_t>(key.GetInt(0)),
                      static_cast<uint64_t>(key.GetInt(1)));
}

absl::StatusOr<std::vector<Type>> InferRandom(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckKey(call, 0));
  DType dtype = call.attrs.Get<DType>("dtype");
  if (!IsFloat(dtype)) {
    return Invalid("dtype is {}, it should be a float type", ToString(dtype));
  }
  ASYRA_ASSIGN_OR_RETURN(Shape shape, RequireShape(call, dtype));
  ASYRA_RETURN_IF_ERROR(CheckCuts(call));
  return std::vector<Type>{Type(dtype, shape)};
}

// Every dimension as positional: "@d0 @d1".
std::string PositionalSpec(int rank) {
  std::string spec;
  for (int d = 0; d < rank; ++d) spec += fmt::format("@d{} ", d);
  return spec;
}

absl::StatusOr<AxisRule> RandomAxes(const OpCall& call) {
  return ParseAxisRule("!key -> " + PositionalSpec(call.results[0].rank()),
                       call.operands, call.results);
}

// No operand tells how the result is distributed.
absl::StatusOr<std::vector<Type>> DistributeRandom(const OpCall& call,
                                                   const Mesh& mesh) {
  ASYRA_ASSIGN_OR_RETURN(AxisRule rule, AxisRuleOf(call));
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> results,
                         Distribute(rule, call.operands, call.results, mesh));
  const Ints& dims = call.attrs.Get<Ints>("cut");
  const AxisList& axes = call.attrs.Get<AxisList>("axes");
  for (size_t i = 0; i < dims.size(); ++i) {
    ASYRA_RETURN_IF_ERROR(
        PutInner(&results[0], static_cast<int>(dims[i]), {axes[i]}, mesh));
  }
  return results;
}

template <bool normal>
absl::Status RandomReference(const RefCall& call) {
  RandomStream stream = StreamOf(call.operands[0]);
  Tensor& out = call.results[0];
  int bits = FractionBits(out.dtype());
  ForEachElement(call.result_types[0], out, call.mesh, call.device,
                 [&](int64_t local, int64_t whole) {
                   out.Set(local, normal ? Normal(&stream, whole)
                                         : Uniform(stream.Word(whole), bits));
                 });
  return absl::OkStatus();
}

// A few integer operations a round.
template <int per_element>
Work RandomWork(const OpCall& local) {
  Work work;
  work.flops =
      per_element * static_cast<double>(local.results[0].num_elements());
  for (const Type& type : local.operands) {
    work.read_bytes += static_cast<double>(type.bytes());
  }
  work.write_bytes = static_cast<double>(local.results[0].bytes());
  return work;
}

void ResizeShape(AttrMap* attrs, absl::Span<const Type> results) {
  Shape shape = results[0].shape();
  attrs->Set("shape", Ints(shape.begin(), shape.end()));
}

// dropout -------------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferDropout(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  ASYRA_RETURN_IF_ERROR(CheckKey(call, 1));
  double rate = call.attrs.Float("rate");
  if (!(rate >= 0 && rate < 1)) {
    return Invalid("rate is {}, it should be in [0, 1)", rate);
  }
  return SameAsFirst(call);
}

absl::StatusOr<AxisRule> DropoutAxes(const OpCall& call) {
  std::string dims = PositionalSpec(call.operands[0].rank());
  return ParseAxisRule(fmt::format("{}, !key -> {}", dims, dims), call.operands,
                       call.results, Linearity::kFirst);
}

absl::Status DropoutReference(const RefCall& call) {
  RandomStream stream = StreamOf(call.operands[1]);
  double rate = call.attrs.Float("rate");
  std::vector<double> x = call.operands[0].ToDoubles();
  ForEachElement(call.operand_types[0], call.operands[0], call.mesh,
                 call.device, [&](int64_t local, int64_t whole) {
                   bool drops = Uniform(stream.Word(whole), 24) < rate;
                   x[local] = drops ? 0 : x[local] / (1 - rate);
                 });
  call.results[0].SetAll(x);
  return absl::OkStatus();
}

// The same elements are dropped again: nothing need be kept.
Gradients DropoutVjp(Gradient& g) {
  return {g.Op("dropout", {g.dy(), g.x(1)}, g.attrs()), kNoValue};
}

// No axes. As a value, of which a copy is made, since gcc 12 takes a moved one
// for uninitialized.
const AxisList kNoAxes;

OpDef Random(std::string_view name, std::string_view summary,
             absl::Status (*reference)(const RefCall&)) {
  return {.name = name,
          .summary = summary,
          .operands = {{"key"}},
          .attrs = {{"shape", AttrKind::kInts, "sizes, all given"},
                    {"dtype", AttrKind::kDType, "element type", DType::kF32},
                    {"cut", AttrKind::kInts,
                     "dimensions that `axes` cut, one for each", Ints()},
                    {"axes", AttrKind::kAxes,
                     "by which each device draws its part alone", kNoAxes}},
          .infer = InferRandom,
          .axes = RandomAxes,
          .distribute = DistributeRandom,
          .resize = ResizeShape,
          .work = RandomWork<10>,
          .reference = reference};
}

}  // namespace

std::vector<OpDef> RandomOps() {
  OpDef uniform = Random("random_uniform",
                         "uniform in [0, 1): the upper bits of Philox4x32-10 "
                         "under key (seed, stream), by global index",
                         RandomReference<false>);
  uniform.samples = {{"random_uniform(i64[2]) {shape=[4, 6]}"},
                     {"random_uniform(i64[2]) {shape=[2, 4, 6], dtype=bf16}"}};
  OpDef normal = Random("random_normal",
                        "normal with mean 0 and variance 1, from pairs of "
                        "words of Philox4x32-10 under key (seed, stream), by "
                        "global index",
                        RandomReference<true>);
  normal.samples = {{"random_normal(i64[2]) {shape=[4, 6]}"},
                    {"random_normal(i64[2]) {shape=[8], dtype=f16}"},
                    {"random_normal(i64[2]) {shape=[4, 6], cut=[1, 0], "
                     "axes=(b,a)}",
                     -3, 3, "(a=2, b=2)"}};
  return {
      uniform,
      normal,
      {.name = "dropout",
       .summary = "0 where random_uniform of the key is below `rate`, else x / "
                  "(1 - rate)",
       .operands = {{"x"}, {"key"}},
       .attrs = {{"rate", AttrKind::kFloat, "part that is dropped"}},
       .infer = InferDropout,
       .axes = DropoutAxes,
       .work = RandomWork<12>,
       .vjp = Vjp<DropoutVjp>,
       .reference = DropoutReference,
       .samples = {{"dropout(f32[4,6], i64[2]) {rate=0.25}"},
                   {"dropout(f32[2,4,6], i64[2]) {rate=0.0}"}}},
  };
}

}  // namespace asyra::ops
