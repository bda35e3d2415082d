// Reductions over dimensions, and softmax and running sums along one.
#include <cmath>

#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

absl::StatusOr<std::vector<Type>> InferReduce(const OpCall& call) {
  const Type& x = call.operands[0];
  ASYRA_ASSIGN_OR_RETURN(std::vector<int> dims,
                         RequireDims(call, "dims", x.rank()));
  Type type(x.dtype, {});
  for (int d = 0; d < x.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) {
      type.dims.push_back(x.dims[d]);
    } else if (call.attrs.Bool("keep")) {
      type.dims.push_back({1, {}});
    }
  }
  return std::vector<Type>{type};
}

absl::StatusOr<std::vector<Type>> InferMean(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  return InferReduce(call);
}

// The largest of no elements does not exist.
absl::StatusOr<std::vector<Type>> InferExtreme(const OpCall& call) {
  const Type& x = call.operands[0];
  ASYRA_ASSIGN_OR_RETURN(std::vector<int> dims,
                         RequireDims(call, "dims", x.rank()));
  for (int dim : dims) {
    if (x.size(dim) == 0) return Invalid("dim {} has no elements", dim);
  }
  return InferReduce(call);
}

std::vector<int> DimsOf(const AttrMap& attrs, int rank) {
  std::vector<int> dims;
  for (int64_t dim : attrs.Get<Ints>("dims")) {
    dims.push_back(NormalizeDim(dim, rank));
  }
  return dims;
}

template <bool whole>
absl::StatusOr<AxisRule> ReduceAxes(const OpCall& call) {
  int rank = call.operands[0].rank();
  std::vector<int> dims = DimsOf(call.attrs, rank);
  std::string spec =
      DimSpec(0, rank, whole ? dims : std::vector<int>{}) + " ->";
  for (int d = 0; d < rank; ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) {
      spec += fmt::format(" d{}", d);
    } else if (call.attrs.Bool("keep")) {
      spec += " _";
    }
  }
  return ParseAxisRule(spec, call.operands, call.results,
                       whole ? Linearity::kNone : Linearity::kJoint);
}

// Folds every element of the operand into its result by F(result, element).
template <auto F, typename T>
std::vector<T> Fold(const RefCall& call, absl::Span<const T> values, T first) {
  Shape kept = call.operands[0].shape();
  for (int dim : DimsOf(call.attrs, call.operands[0].rank())) kept[dim] = 1;
  auto index = BroadcastIndex(kept, call.operands[0].shape());
  std::vector<T> folded(call.results[0].num_elements(), first);
  for (size_t i = 0; i < values.size(); ++i) {
    T& into = folded[index(static_cast<int64_t>(i))];
    into = F(into, values[i]);
  }
  return folded;
}

template <auto F, auto First>
absl::Status ReduceReference(const RefCall& call) {
  Tensor& out = call.results[0];
  if (IsFloat(out.dtype())) {
    out.SetAll(
        Fold<F, double>(call, call.operands[0].ToDoubles(), First(double{})));
  } else {
    std::vector<int64_t> folded =
        Fold<F, int64_t>(call, call.operands[0].ToInts(), First(int64_t{}));
    for (size_t i = 0; i < folded.size(); ++i) {
      out.SetInt(static_cast<int64_t>(i), folded[i]);
    }
  }
  return absl::OkStatus();
}

template <typename T>
T Lowest(T) {
  return std::is_integral_v<T> ? std::numeric_limits<T>::lowest()
                               : -std::numeric_limits<T>::infinity();
}

template <typename T>
T Highest(T) {
  return std::is_integral_v<T> ? std::numeric_limits<T>::max()
                               : std::numeric_limits<T>::infinity();
}

constexpr auto kZero = [](auto like) { return decltype(like){}; };
constexpr auto kPlus = [](auto a, auto b) { return Plus(a, b); };

// Divides by the global count, so that the means of shards sum up to the mean.
absl::Status MeanReference(const RefCall& call) {
  const Type& x = call.operand_types[0];
  double count = 1;
  for (int dim : DimsOf(call.attrs, x.rank())) {
    count *= static_cast<double>(x.size(dim));
  }
  std::vector<double> sums =
      Fold<kPlus, double>(call, call.operands[0].ToDoubles(), 0.0);
  for (double& sum : sums) sum /= count;
  call.results[0].SetAll(sums);
  return absl::OkStatus();
}

Work ReduceWork(const OpCall& local) {
  return {.flops = static_cast<double>(local.operands[0].num_elements()),
          .read_bytes = static_cast<double>(local.operands[0].bytes()),
          .write_bytes = static_cast<double>(local.results[0].bytes())};
}

// `value`, of the result's shape, repeated along the reduced dimensions.
ValueId Spread(Gradient& g, ValueId value) {
  Shape shape = g.type(g.x()).shape(), kept = shape;
  for (int dim : DimsOf(g.attrs(), g.type(g.x()).rank())) kept[dim] = 1;
  if (!g.attrs().Bool("keep")) value = g.Reshape(value, kept);
  return g.Op("broadcast", {value},
              {{"shape", Ints(shape.begin(), shape.end())}});
}

Gradients SumVjp(Gradient& g) { return {Spread(g, g.dy())}; }

Gradients MeanVjp(Gradient& g) {
  double ratio = static_cast<double>(g.type(g.y()).num_elements()) /
                 static_cast<double>(g.type(g.x()).num_elements());
  return {Spread(g, g.Scale(ratio, g.dy()))};
}

// softmax and cumsum --------------------------------------------------------

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

absl::Status SoftmaxReference(const RefCall& call) {
  const Tensor& x = call.operands[0];
  std::vector<double> v = x.ToDoubles();
  ForEachLine(x.shape(), NormalizeDim(call.attrs.Int("dim"), x.rank()),
              [&](int64_t first, int64_t stride, int64_t count) {
                double largest = Lowest(0.0), sum = 0;
                for (int64_t i = 0; i < count; ++i) {
                  largest = std::max(largest, v[first + i * stride]);
                }
                for (int64_t i = 0; i < count; ++i) {
                  double& value = v[first + i * stride];
                  value = std::exp(value - largest);
                  sum += value;
                }
                for (int64_t i = 0; i < count; ++i)
                  v[first + i * stride] /= sum;
              });
  call.results[0].SetAll(v);
  return absl::OkStatus();
}

Work SoftmaxWork(const OpCall& local) {
  Work work = ReduceWork(local);
  work.flops *= 4;  // largest, exp, sum, divide
  return work;
}

Gradients SoftmaxVjp(Gradient& g) {
  int64_t dim = NormalizeDim(g.attrs().Int("dim"), g.type(g.x()).rank());
  ValueId dot =
      g.Op("reduce_sum", {g.Mul(g.dy(), g.y())}, {{"dims", Ints{dim}}});
  return {g.Mul(g.y(), g.Sub(g.dy(), dot))};
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

OpDef Reduce(std::string_view name, std::string_view summary, bool whole,
             absl::Status (*reference)(const RefCall&)) {
  return {.name = name,
          .summary = summary,
          .operands = {{"x"}},
          .attrs = {{"dims", AttrKind::kInts, "dimensions reduced"},
                    {"keep", AttrKind::kBool, "leave them with size 1", true}},
          .infer = whole ? InferExtreme : InferReduce,
          .axes = whole ? ReduceAxes<true> : ReduceAxes<false>,
          .work = ReduceWork,
          .reference = reference};
}

OpDef ReduceSum() {
  OpDef def = Reduce("reduce_sum", "sum over `dims`", false,
                     ReduceReference<kPlus, kZero>);
  def.vjp = Vjp<SumVjp>;
  def.samples = {{"reduce_sum(f32[4,6]) {dims=[1]}"},
                 {"reduce_sum(f32[2,4,6]) {dims=[0, -1], keep=false}"},
                 {"reduce_sum(i64[4,6]) {dims=[0, 1], keep=false}"}};
  return def;
}

OpDef ReduceMean() {
  OpDef def = Reduce("reduce_mean", "mean over `dims`", false, MeanReference);
  def.infer = InferMean;
  def.vjp = Vjp<MeanVjp>;
  def.samples = {{"reduce_mean(f32[4,6]) {dims=[1]}"},
                 {"reduce_mean(f32[2,4,6]) {dims=[1], keep=false}"}};
  return def;
}

}  // namespace

std::vector<OpDef> ReduceOps() {
  OpDef max =
      Reduce("reduce_max", "largest element over `dims`", true,
             ReduceReference<[](auto a, auto b) { return std::max(a, b); },
                             [](auto like) { return Lowest(like); }>);
  max.samples = {{"reduce_max(f32[4,6]) {dims=[1]}"},
                 {"reduce_max(i64[2,4,6]) {dims=[0, 2], keep=false}"}};
  OpDef min =
      Reduce("reduce_min", "smallest element over `dims`", true,
             ReduceReference<[](auto a, auto b) { return std::min(a, b); },
                             [](auto like) { return Highest(like); }>);
  min.samples = {{"reduce_min(f32[4,6]) {dims=[0]}"},
                 {"reduce_min(bool[4,6]) {dims=[1], keep=false}", 0, 1}};
  return {
      ReduceSum(),
      ReduceMean(),
      max,
      min,
      {.name = "softmax",
       .summary = "e^x / sum of e^x along `dim`",
       .operands = {{"x"}},
       .attrs = {{"dim", AttrKind::kInt, "dimension", int64_t{-1}}},
       .infer = InferSoftmax,
       .axes = AlongAxes<Linearity::kNone>,
       .work = SoftmaxWork,
       .vjp = Vjp<SoftmaxVjp>,
       .reference = SoftmaxReference,
       .samples = {{"softmax(f32[4,6])"}, {"softmax(f32[2,4,6]) {dim=1}"}}},
      {.name = "cumsum",
       .summary = "running sum along `dim`",
       .operands = {{"x"}},
       .attrs = {{"dim", AttrKind::kInt, "dimension"},
                 {"exclusive", AttrKind::kBool, "element i is not in sum i",
                  false},
                 {"reverse", AttrKind::kBool, "from the end", false}},
       .infer = InferAlong,
       .axes = AlongAxes<Linearity::kJoint>,
       .work = ReduceWork,
       .vjp = Vjp<CumsumVjp>,
       .reference = CumsumReference,
       .samples = {{"cumsum(f32[4,6]) {dim=1}"},
                   {"cumsum(i64[6,4]) {dim=0, exclusive=true}"},
                   {"cumsum(f32[4,6]) {dim=-1, exclusive=true, "
                    "reverse=true}"}}},
  };
}

}  // namespace asyra::ops
