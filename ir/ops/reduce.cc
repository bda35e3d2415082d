// Reductions over dimensions.
#include <cmath>

#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/integers.h"
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

// f32 of 16-bit elements, if asked.
absl::StatusOr<std::vector<Type>> InferSum(const OpCall& call) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> types, InferReduce(call));
  if (!call.attrs.Bool("wide")) return types;
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  if (SizeOf(types[0].dtype) == 2) types[0].dtype = DType::kF32;
  return types;
}

absl::StatusOr<std::vector<Type>> InferMean(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  return InferReduce(call);
}

// The maximum of no elements does not exist.
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

// The marks of the reduced dimensions in the axis rule: as reductions, as
// whole, or as reductions if the op knows the global count (a mean). Sums of
// powers are not linear.
constexpr char kSums[] = "", kNeedsWhole[] = "!", kCounts[] = "@";

template <const char* mark, bool linear = mark != kNeedsWhole>
absl::StatusOr<AxisRule> ReduceAxes(const OpCall& call) {
  int rank = call.operands[0].rank();
  std::vector<int> dims = DimsOf(call.attrs, rank);
  std::string operand, result;
  for (int d = 0; d < rank; ++d) {
    bool reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    operand += fmt::format("{}d{} ", reduced ? mark : "", d);
    if (!reduced) {
      result += fmt::format(" d{}", d);
    } else if (call.attrs.Bool("keep")) {
      result += " _";
    }
  }
  return ParseAxisRule(operand + "->" + result, call.operands, call.results,
                       linear ? Linearity::kJoint : Linearity::kNone);
}

// Reduces every element of the operand into its result by F(result, element).
template <auto F, typename T>
std::vector<T> ReduceBy(const RefCall& call, absl::Span<const T> values,
                        T first) {
  Shape kept = call.operands[0].shape();
  for (int dim : DimsOf(call.attrs, call.operands[0].rank())) kept[dim] = 1;
  auto index = BroadcastIndex(kept, call.operands[0].shape());
  std::vector<T> reduced(call.results[0].num_elements(), first);
  for (size_t i = 0; i < values.size(); ++i) {
    T& into = reduced[index(static_cast<int64_t>(i))];
    into = F(into, values[i]);
  }
  return reduced;
}

template <auto F, auto First>
absl::Status ReduceReference(const RefCall& call) {
  Tensor& out = call.results[0];
  if (IsFloat(out.dtype())) {
    out.SetAll(ReduceBy<F, double>(call, call.operands[0].ToDoubles(),
                                   First(double{})));
  } else {
    std::vector<int64_t> reduced =
        ReduceBy<F, int64_t>(call, call.operands[0].ToInts(), First(int64_t{}));
    for (size_t i = 0; i < reduced.size(); ++i) {
      out.SetInt(static_cast<int64_t>(i), reduced[i]);
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
constexpr auto kOne = [](auto like) { return decltype(like){1}; };
constexpr auto kTimes = [](auto a, auto b) { return Times(a, b); };
constexpr auto kLarger = [](auto a, auto b) { return Maximum(a, b); };
constexpr auto kSmaller = [](auto a, auto b) { return Minimum(a, b); };
constexpr auto kPlus = [](auto a, auto b) { return Plus(a, b); };
constexpr auto kPlusSquare = [](auto a, auto b) {
  return Plus(a, Times(b, b));
};

// Divides by the global count, so that the means of shards sum up to the mean.
absl::Status MeanReference(const RefCall& call) {
  const Type& x = call.operand_types[0];
  double count = 1;
  for (int dim : DimsOf(call.attrs, x.rank())) {
    count *= static_cast<double>(x.size(dim));
  }
  std::vector<double> sums =
      ReduceBy<kPlus, double>(call, call.operands[0].ToDoubles(), 0.0);
  for (double& sum : sums) sum /= count;
  call.results[0].SetAll(sums);
  return absl::OkStatus();
}

Work ReduceWork(const OpCall& local) {
  return {.flops = static_cast<double>(local.operands[0].num_elements()),
          .read_bytes = static_cast<double>(local.operands[0].bytes()),
          .write_bytes = static_cast<double>(local.results[0].bytes())};
}

Work SumSquareWork(const OpCall& local) {
  Work work = ReduceWork(local);
  work.flops *= 2;
  return work;
}

Work LogSumExpWork(const OpCall& local) {
  Work work = ReduceWork(local);
  work.flops *= 3;  // largest, exp, sum
  return work;
}

// `value`, of the result's shape, repeated along the reduced dimensions.
ValueId Spread(Gradient& g, ValueId value) {
  Shape shape = g.type(g.x()).shape(), kept = shape;
  for (int dim : DimsOf(g.attrs(), g.type(g.x()).rank())) kept[dim] = 1;
  if (!g.attrs().Bool("keep")) value = g.Reshape(value, kept);
  return g.Op("broadcast", {value},
              {{"shape", Ints(shape.begin(), shape.end())}});
}

Gradients SumVjp(Gradient& g) {
  return {Spread(g, g.Cast(g.dy(), g.type(g.x()).dtype))};
}

Gradients SumSquareVjp(Gradient& g) {
  return {g.Mul(g.Scale(2, Spread(g, g.dy())), g.x())};
}

// Equal ones share it.
Gradients ExtremeVjp(Gradient& g) {
  DType dtype = g.type(g.x()).dtype;
  ValueId is_it =
      g.Op("cast", {g.Op("equal", {g.x(), Spread(g, g.y())})}, {{"to", dtype}});
  AttrMap attrs = g.attrs();
  attrs.Set("keep", true);
  ValueId share = g.Div(is_it, g.Op("reduce_sum", {is_it}, attrs));
  return {g.Mul(Spread(g, g.dy()), share)};
}

Gradients ProdVjp(Gradient& g) {
  return {g.Div(Spread(g, g.Mul(g.dy(), g.y())), g.x())};
}

// With the maximum subtracted, so that nothing overflows.
absl::Status LogSumExpReference(const RefCall& call) {
  std::vector<double> x = call.operands[0].ToDoubles();
  std::vector<double> most = ReduceBy<kLarger, double>(call, x, Lowest(0.0));
  for (double& value : most) {
    if (std::isinf(value)) value = 0;  // all -inf, or a +inf
  }
  Shape kept = call.operands[0].shape();
  for (int dim : DimsOf(call.attrs, call.operands[0].rank())) kept[dim] = 1;
  auto index = BroadcastIndex(kept, call.operands[0].shape());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::exp(x[i] - most[index(static_cast<int64_t>(i))]);
  }
  std::vector<double> sums = ReduceBy<kPlus, double>(call, x, 0.0);
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] = std::log(sums[i]) + most[i];
  }
  call.results[0].SetAll(sums);
  return absl::OkStatus();
}

Gradients LogSumExpVjp(Gradient& g) {
  ValueId weight = g.Op("exp", {g.Sub(g.x(), Spread(g, g.y()))});
  return {g.Mul(Spread(g, g.dy()), weight)};
}

Gradients MeanVjp(Gradient& g) {
  double ratio = static_cast<double>(g.type(g.y()).num_elements()) /
                 static_cast<double>(g.type(g.x()).num_elements());
  return {Spread(g, g.Scale(ratio, g.dy()))};
}

OpDef Reduce(std::string_view name, std::string_view summary, bool whole,
             absl::Status (*reference)(const RefCall&)) {
  return {.name = name,
          .summary = summary,
          .operands = {{"x"}},
          .attrs = {{"dims", AttrKind::kInts, "dimensions reduced"},
                    {"keep", AttrKind::kBool, "leave them with size 1", true}},
          .infer = whole ? InferExtreme : InferReduce,
          .axes = whole ? ReduceAxes<kNeedsWhole> : ReduceAxes<kSums>,
          .work = ReduceWork,
          .reference = reference,
          .fusable = Fusable::kRow};
}

OpDef ReduceSum() {
  OpDef def = Reduce("reduce_sum", "sum over `dims`", false,
                     ReduceReference<kPlus, kZero>);
  def.attrs.push_back({"wide", AttrKind::kBool,
                       "f32 of 16-bit x, as sums of gradients are", false});
  def.infer = InferSum;
  def.vjp = Vjp<SumVjp>;
  def.samples = {{"reduce_sum(f32[4,6]) {dims=[1]}"},
                 {"reduce_sum(f32[2,4,6]) {dims=[0, -1], keep=false}"},
                 {"reduce_sum(i64[4,6]) {dims=[0, 1], keep=false}"},
                 {"reduce_sum(bf16[4,2,8]) {dims=[0], keep=false}"},
                 {"reduce_sum(bf16[4,2,8]) {dims=[0, 1], wide=true}"},
                 {"reduce_sum(f16[4,8]) {dims=[1], wide=true}"}};
  return def;
}

// One pass, as norms of gradients want it.
OpDef ReduceSumSquare() {
  OpDef def = Reduce("reduce_sum_square", "sum of x^2 over `dims`", false,
                     ReduceReference<kPlusSquare, kZero>);
  def.axes = ReduceAxes<kSums, false>;
  def.work = SumSquareWork;
  def.vjp = Vjp<SumSquareVjp>;
  def.samples = {{"reduce_sum_square(f32[4,6]) {dims=[1]}"},
                 {"reduce_sum_square(f32[2,4,6]) {dims=[0, 1, 2], keep=false}"},
                 {"reduce_sum_square(i32[4,6]) {dims=[0]}"},
                 {"reduce_sum_square(bf16[4,2,8]) {dims=[2], keep=false}"}};
  return def;
}

// sum_squares ---------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferSumSquares(const OpCall& call) {
  if (call.operands.empty()) return Invalid("there is no tensor");
  bool wide = call.operands[0].dtype == DType::kF64;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    ASYRA_RETURN_IF_ERROR(RequireFloat(call, static_cast<int>(i)));
    if ((call.operands[i].dtype == DType::kF64) != wide) {
      return Invalid("tensor {} is {}, tensor 0 is {}: all are f64 or none", i,
                     ToString(call.operands[i].dtype),
                     ToString(call.operands[0].dtype));
    }
  }
  return std::vector<Type>{Type(wide ? DType::kF64 : DType::kF32, {})};
}

AxisList ShardingAxes(const Type& type) {
  AxisList axes;
  for (const Dim& dim : type.dims) {
    axes.insert(axes.end(), dim.axes.begin(), dim.axes.end());
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

// Each tensor is sharded as it is, all over the same axes.
absl::StatusOr<std::vector<Type>> DistributeSumSquares(const OpCall& call,
                                                       const Mesh& mesh) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> results, InferSumSquares(call));
  AxisList axes = ShardingAxes(call.operands[0]);
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const Type& type = call.operands[i];
    if (!type.partial.empty()) {
      return Invalid("tensor {} must not be partial over {}", i,
                     AxesToString(type.partial, mesh));
    }
    if (ShardingAxes(type) != axes) {
      return Invalid("tensor {} is sharded over {}, tensor 0 over {}", i,
                     AxesToString(ShardingAxes(type), mesh),
                     AxesToString(axes, mesh));
    }
  }
  results[0].partial = axes;
  return results;
}

Work SumSquaresWork(const OpCall& local) {
  Work work;
  for (const Type& type : local.operands) {
    work.flops += 2 * static_cast<double>(type.num_elements());
    work.read_bytes += static_cast<double>(type.bytes());
  }
  work.write_bytes = static_cast<double>(local.results[0].bytes());
  return work;
}

absl::Status SumSquaresReference(const RefCall& call) {
  double sum = 0;
  for (const Tensor& tensor : call.operands) {
    for (double x : tensor.ToDoubles()) sum += x * x;
  }
  call.results[0].SetAll({sum});
  return absl::OkStatus();
}

OpDef SumSquares() {
  return {.name = "sum_squares",
          .summary =
              "sum of x^2 over all elements of several tensors, in f32 "
              "(f64 of f64)",
          .operands = {{"tensors", OperandDef::kVariadic}},
          .infer = InferSumSquares,
          .axes = NoFactors,
          .distribute = DistributeSumSquares,
          .work = SumSquaresWork,
          .reference = SumSquaresReference,
          .samples = {{"sum_squares(f32[4,6])"},
                      {"sum_squares(f32[4,600], f32[], f32[7], bf16[2,9])"},
                      {"sum_squares(f16[5], bf16[0], f32[3,2100])"},
                      {"sum_squares(f64[4,6], f64[3])"}}};
}

OpDef ReduceMean() {
  OpDef def = Reduce("reduce_mean", "mean over `dims`", false, MeanReference);
  def.infer = InferMean;
  def.axes = ReduceAxes<kCounts>;
  def.vjp = Vjp<MeanVjp>;
  def.samples = {{"reduce_mean(f32[4,6]) {dims=[1]}"},
                 {"reduce_mean(f32[2,4,6]) {dims=[1], keep=false}"}};
  return def;
}

OpDef ReduceProd() {
  OpDef def = Reduce("reduce_prod",
                     "product over `dims`; its gradient is not a number where "
                     "x is 0",
                     true, ReduceReference<kTimes, kOne>);
  def.infer = InferReduce;
  def.vjp = Vjp<ProdVjp>;
  def.samples = {{"reduce_prod(f32[4,6]) {dims=[1]}", 1, 2},
                 {"reduce_prod(i64[2,4,6]) {dims=[0, 2], keep=false}"}};
  return def;
}

OpDef LogSumExp() {
  OpDef def = Reduce("log_sum_exp", "logarithm of the sum of e^x over `dims`",
                     true, LogSumExpReference);
  def.infer = InferMean;
  def.work = LogSumExpWork;
  def.vjp = Vjp<LogSumExpVjp>;
  def.samples = {{"log_sum_exp(f32[4,6]) {dims=[1]}"},
                 {"log_sum_exp(f32[2,4,6]) {dims=[0, 2], keep=false}"}};
  return def;
}

}  // namespace

std::vector<OpDef> ReduceOps() {
  OpDef max =
      Reduce("reduce_max", "largest element over `dims`", true,
             ReduceReference<kLarger, [](auto like) { return Lowest(like); }>);
  max.vjp = Vjp<ExtremeVjp>;
  max.samples = {{"reduce_max(f32[4,6]) {dims=[1]}"},
                 {"reduce_max(i64[2,4,6]) {dims=[0, 2], keep=false}"}};
  OpDef min = Reduce(
      "reduce_min", "smallest element over `dims`", true,
      ReduceReference<kSmaller, [](auto like) { return Highest(like); }>);
  min.vjp = Vjp<ExtremeVjp>;
  min.samples = {{"reduce_min(f32[4,6]) {dims=[0]}"},
                 {"reduce_min(bool[4,6]) {dims=[1], keep=false}", 0, 1}};
  return {
      ReduceSum(), ReduceMean(), ReduceProd(),      max,
      min,         LogSumExp(),  ReduceSumSquare(), SumSquares(),
  };
}

}  // namespace asyra::ops
