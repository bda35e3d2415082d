// Softmax and running sums: ops that need one dimension whole.
#include <cmath>

#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/integers.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

absl::StatusOr<std::vector<Type>> InferAlong(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(
      RequireDim(call, "dim", call.operands[0].rank()).status());
  return SameAsFirst(call);
}

absl::StatusOr<std::vector<Type>> InferSoftmax(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  return InferAlong(call);
}

template <Linearity linearity>
absl::StatusOr<AxisRule> AlongAxes(const OpCall& call) {
  int rank = call.operands[0].rank();
  std::string dims =
      DimSpec(0, rank, {NormalizeDim(call.attrs.Int("dim"), rank)});
  return ParseAxisRule(dims + " -> " + dims, call.operands, call.results,
                       linearity);
}

// Calls visit(first, stride, count) for every line of elements along `dim`.
template <typename Visit>
void ForEachLine(const Shape& shape, int dim, Visit visit) {
  Along along(shape, dim);
  for (int64_t i = 0; i < along.outer; ++i) {
    for (int64_t j = 0; j < along.inner; ++j) {
      visit(i * along.size * along.inner + j, along.inner, along.size);
    }
  }
}

// softmax or, with `log`, its logarithm.
template <bool log>
absl::Status SoftmaxReference(const RefCall& call) {
  const Tensor& x = call.operands[0];
  std::vector<double> v = x.ToDoubles();
  ForEachLine(x.shape(), NormalizeDim(call.attrs.Int("dim"), x.rank()),
              [&](int64_t first, int64_t stride, int64_t count) {
                double largest = -std::numeric_limits<double>::infinity();
                double sum = 0;
                for (int64_t i = 0; i < count; ++i) {
                  largest = std::max(largest, v[first + i * stride]);
                }
                for (int64_t i = 0; i < count; ++i) {
                  double& value = v[first + i * stride];
                  value -= largest;
                  sum += std::exp(value);
                }
                for (int64_t i = 0; i < count; ++i) {
                  double& value = v[first + i * stride];
                  value = log ? value - std::log(sum) : std::exp(value) / sum;
                }
              });
  call.results[0].SetAll(v);
  return absl::OkStatus();
}

Work SoftmaxWork(const OpCall& local) {
  Work work = MoveWork(local);
  // largest, exp, sum, divide
  work.flops = 4 * static_cast<double>(local.results[0].num_elements());
  // It goes through a row for the largest, for the sum, and for the result.
  const Type& x = local.operands[0];
  int dim = NormalizeDim(local.attrs.Int("dim"), x.rank());
  work.row_bytes = static_cast<double>(x.size(dim) * SizeOf(x.dtype));
  work.reread_bytes = 2 * static_cast<double>(x.bytes());
  return work;
}

Gradients SoftmaxVjp(Gradient& g) {
  int64_t dim = NormalizeDim(g.attrs().Int("dim"), g.type(g.x()).rank());
  ValueId dot =
      g.Op("reduce_sum", {g.Mul(g.dy(), g.y())}, {{"dims", Ints{dim}}});
  return {g.Mul(g.y(), g.Sub(g.dy(), dot))};
}

// dy - softmax(x) sum(dy).
Gradients LogSoftmaxVjp(Gradient& g) {
  int64_t dim = NormalizeDim(g.attrs().Int("dim"), g.type(g.x()).rank());
  ValueId sum = g.Op("reduce_sum", {g.dy()}, {{"dims", Ints{dim}}});
  return {g.Sub(g.dy(), g.Mul(g.Op("exp", {g.y()}), sum))};
}

Work CumsumWork(const OpCall& local) {
  Work work = MoveWork(local);
  work.flops = static_cast<double>(local.results[0].num_elements());
  return work;
}

template <typename T>
void RunningSum(const RefCall& call, std::vector<T>* values) {
  const Shape& shape = call.operands[0].shape();
  bool exclusive = call.attrs.Bool("exclusive");
  bool reverse = call.attrs.Bool("reverse");
  ForEachLine(shape,
              NormalizeDim(call.attrs.Int("dim"), call.operands[0].rank()),
              [&](int64_t first, int64_t stride, int64_t count) {
                T sum{};
                for (int64_t i = 0; i < count; ++i) {
                  int64_t at = reverse ? count - 1 - i : i;
                  T& value = (*values)[first + at * stride];
                  T next = Plus(sum, value);
                  value = exclusive ? sum : next;
                  sum = next;
                }
              });
}

absl::Status CumsumReference(const RefCall& call) {
  Tensor& out = call.results[0];
  if (IsFloat(out.dtype())) {
    std::vector<double> values = call.operands[0].ToDoubles();
    RunningSum(call, &values);
    out.SetAll(values);
  } else {
    std::vector<int64_t> values = call.operands[0].ToInts();
    RunningSum(call, &values);
    for (size_t i = 0; i < values.size(); ++i) {
      out.SetInt(static_cast<int64_t>(i), values[i]);
    }
  }
  return absl::OkStatus();
}

Gradients CumsumVjp(Gradient& g) {
  AttrMap attrs = g.attrs();
  attrs.Set("reverse", !attrs.Bool("reverse"));
  return {g.Op("cumsum", {g.dy()}, attrs)};
}

}  // namespace

std::vector<OpDef> SoftmaxOps() {
  return {
      {.name = "softmax",
       .summary = "e^x / sum of e^x along `dim`",
       .operands = {{"x"}},
       .attrs = {{"dim", AttrKind::kInt, "dimension", int64_t{-1}}},
       .infer = InferSoftmax,
       .axes = AlongAxes<Linearity::kNone>,
       .work = SoftmaxWork,
       .vjp = Vjp<SoftmaxVjp>,
       .reference = SoftmaxReference<false>,
       .samples = {{"softmax(f32[4,6])"}, {"softmax(f32[2,4,6]) {dim=1}"}},
       .fusable = Fusable::kRow},
      {.name = "log_softmax",
       .summary = "x - log of the sum of e^x along `dim`",
       .operands = {{"x"}},
       .attrs = {{"dim", AttrKind::kInt, "dimension", int64_t{-1}}},
       .infer = InferSoftmax,
       .axes = AlongAxes<Linearity::kNone>,
       .work = SoftmaxWork,
       .vjp = Vjp<LogSoftmaxVjp>,
       .reference = SoftmaxReference<true>,
       .samples = {{"log_softmax(f32[4,6])"},
                   {"log_softmax(f32[2,4,6]) {dim=1}"}},
       .fusable = Fusable::kRow},
      {.name = "cumsum",
       .summary = "running sum along `dim`",
       .operands = {{"x"}},
       .attrs = {{"dim", AttrKind::kInt, "dimension"},
                 {"exclusive", AttrKind::kBool, "element i is not in sum i",
                  false},
                 {"reverse", AttrKind::kBool, "from the end", false}},
       .infer = InferAlong,
       .axes = AlongAxes<Linearity::kJoint>,
       .work = CumsumWork,
       .vjp = Vjp<CumsumVjp>,
       .reference = CumsumReference,
       .samples = {{"cumsum(f32[4,6]) {dim=1}"},
                   {"cumsum(i64[6,4]) {dim=0, exclusive=true}"},
                   {"cumsum(f32[4,6]) {dim=-1, exclusive=true, "
                    "reverse=true}"}}},
  };
}

}  // namespace asyra::ops
