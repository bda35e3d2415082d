// The largest and smallest elements along a dimension, and where they are.
#include <cmath>
#include <numeric>

#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

absl::StatusOr<std::vector<Type>> InferTopK(const OpCall& call) {
  const Type& x = call.operands[0];
  ASYRA_ASSIGN_OR_RETURN(int dim, RequireDim(call, "dim", x.rank()));
  int64_t k = call.attrs.Int("k");
  if (k < 0 || k > x.size(dim)) {
    return Invalid("k is {}, dim {} has size {}", k, dim, x.size(dim));
  }
  Type values = x;
  values.dims[dim].size = k;
  Type indices = values;
  indices.dtype = DType::kI64;
  return std::vector<Type>{values, indices};
}

absl::StatusOr<AxisRule> TopKAxes(const OpCall& call) {
  int rank = call.operands[0].rank();
  int dim = NormalizeDim(call.attrs.Int("dim"), rank);
  std::string best =
      fmt::format("{} !best {}", DimSpec(0, dim), DimSpec(dim + 1, rank));
  return ParseAxisRule(
      fmt::format("{} -> {}, {}", DimSpec(0, rank, {dim}), best, best),
      call.operands, call.results);
}

// Not-a-number is larger than all others, as in PyTorch and NumPy's sort.
template <typename T>
bool Larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  }
  return a > b;
}

// The first `count` indices of every line along `dim`, the larger (smaller)
// elements and of equal ones the lower (higher) index first. visit(line,
// rank, index) with the line as element of [outer, inner].
template <typename T, typename Visit>
void ForEachBest(const Shape& shape, int dim, const std::vector<T>& x,
                 int64_t count, bool largest, bool last, Visit visit) {
  Along along(shape, dim);
  std::vector<int64_t> order(along.size);
  for (int64_t line = 0; line < along.outer * along.inner; ++line) {
    const T* first = x.data() + line / along.inner * along.size * along.inner +
                     line % along.inner;
    std::iota(order.begin(), order.end(), int64_t{0});
    std::partial_sort(order.begin(), order.begin() + count, order.end(),
                      [&](int64_t i, int64_t j) {
                        T a = first[i * along.inner],
                          b = first[j * along.inner];
                        if (Larger(a, b)) return largest;
                        if (Larger(b, a)) return !largest;
                        return last ? i > j : i < j;
                      });
    for (int64_t rank = 0; rank < count; ++rank) visit(line, rank, order[rank]);
  }
}

// With the elements as doubles or, where they are integers, as such.
template <typename Visit>
void VisitBest(const RefCall& call, int64_t count, bool largest, bool last,
               Visit visit) {
  const Tensor& x = call.operands[0];
  int dim = NormalizeDim(call.attrs.Int("dim"), x.rank());
  if (IsFloat(x.dtype())) {
    ForEachBest(x.shape(), dim, x.ToDoubles(), count, largest, last, visit);
  } else {
    ForEachBest(x.shape(), dim, x.ToInts(), count, largest, last, visit);
  }
}

absl::Status TopKReference(const RefCall& call) {
  const Tensor& x = call.operands[0];
  int64_t k = call.attrs.Int("k");
  Along along(x.shape(), NormalizeDim(call.attrs.Int("dim"), x.rank()));
  std::vector<int64_t> from(call.results[0].num_elements());
  VisitBest(call, k, call.attrs.Bool("largest"), false,
            [&](int64_t line, int64_t rank, int64_t index) {
              int64_t outer = line / along.inner, inner = line % along.inner;
              int64_t to = (outer * k + rank) * along.inner + inner;
              from[to] = (outer * along.size + index) * along.inner + inner;
              call.results[1].SetInt(to, index);
            });
  CopyElements(
      x, [&](int64_t i) { return from[i]; }, &call.results[0]);
  return absl::OkStatus();
}

Work SortWork(const OpCall& local) {
  Work work;
  const Type& x = local.operands[0];
  work.flops = static_cast<double>(x.num_elements());
  work.read_bytes = static_cast<double>(x.bytes());
  for (const Type& type : local.results) {
    work.write_bytes += static_cast<double>(type.bytes());
  }
  return work;
}

Gradients TopKVjp(Gradient& g) {
  AttrMap attrs = {{"dim", g.attrs().Int("dim")},
                   {"reduction", std::string("add")}};
  return {g.Op("scatter_elements", {g.Zeros(g.x()), g.y(1), g.dy()}, attrs)};
}

// arg_max, arg_min ----------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferArg(const OpCall& call) {
  Type type = call.operands[0];
  ASYRA_ASSIGN_OR_RETURN(int dim, RequireDim(call, "dim", type.rank()));
  if (type.size(dim) == 0) return Invalid("dim {} has no elements", dim);
  type.dtype = DType::kI64;
  if (call.attrs.Bool("keep")) {
    type.dims[dim].size = 1;
  } else {
    type.dims.erase(type.dims.begin() + dim);
  }
  return std::vector<Type>{type};
}

absl::StatusOr<AxisRule> ArgAxes(const OpCall& call) {
  int rank = call.operands[0].rank();
  int dim = NormalizeDim(call.attrs.Int("dim"), rank);
  return ParseAxisRule(
      fmt::format("{} -> {} {} {}", DimSpec(0, rank, {dim}), DimSpec(0, dim),
                  call.attrs.Bool("keep") ? "_" : "", DimSpec(dim + 1, rank)),
      call.operands, call.results);
}

template <bool largest>
absl::Status ArgReference(const RefCall& call) {
  VisitBest(call, 1, largest, call.attrs.Bool("last"),
            [&](int64_t line, int64_t, int64_t index) {
              call.results[0].SetInt(line, index);
            });
  return absl::OkStatus();
}

OpDef Arg(std::string_view name, std::string_view summary,
          absl::Status (*reference)(const RefCall&)) {
  return {.name = name,
          .summary = summary,
          .operands = {{"x"}},
          .attrs = {{"dim", AttrKind::kInt, "dimension"},
                    {"keep", AttrKind::kBool, "leave it with size 1", true},
                    {"last", AttrKind::kBool,
                     "the last of equal ones, not the first", false}},
          .infer = InferArg,
          .axes = ArgAxes,
          .work = SortWork,
          .reference = reference};
}

}  // namespace

std::vector<OpDef> TopKOps() {
  OpDef arg_max = Arg("arg_max", "index of the largest element along `dim`",
                      ArgReference<true>);
  arg_max.samples = {{"arg_max(f32[4,6]) {dim=1}"},
                     {"arg_max(i64[2,4,6]) {dim=1, keep=false, last=true}"}};
  OpDef arg_min = Arg("arg_min", "index of the smallest element along `dim`",
                      ArgReference<false>);
  arg_min.samples = {{"arg_min(f32[4,6]) {dim=0, keep=false}"}};
  return {
      {.name = "top_k",
       .summary = "the k largest (smallest) elements along `dim`, sorted, and "
                  "their indices; of equal ones the lower index is first",
       .operands = {{"x"}},
       .attrs = {{"k", AttrKind::kInt, "how many"},
                 {"dim", AttrKind::kInt, "dimension", int64_t{-1}},
                 {"largest", AttrKind::kBool, "or smallest", true}},
       .infer = InferTopK,
       .axes = TopKAxes,
       .work = SortWork,
       .vjp = Vjp<TopKVjp>,
       .reference = TopKReference,
       .samples = {{"top_k(f32[4,6]) {k=2}"},
                   {"top_k(f32[2,4,6]) {k=3, dim=1, largest=false}"},
                   {"top_k(i64[6,4]) {k=6, dim=0}"}}},
      arg_max,
      arg_min,
  };
}

}  // namespace asyra::ops
