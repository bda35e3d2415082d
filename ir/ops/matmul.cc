// Matmuls.
#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

// Absent from grouped_matmul.
bool TransposeA(const AttrMap& attrs) {
  const AttrValue* value = attrs.Find("transpose_a");
  return value != nullptr && std::get<bool>(*value);
}

// The last two dimensions of an operand, as the matmul reads them.
struct Sides {
  int64_t m, n, k, k_rhs;
  int k_dim_lhs, k_dim_rhs;
  explicit Sides(const OpCall& call) {
    const Type& a = call.operands[0];
    const Type& b = call.operands[1];
    bool ta = TransposeA(call.attrs), tb = call.attrs.Bool("transpose_b");
    k_dim_lhs = a.rank() - (ta ? 2 : 1);
    k_dim_rhs = b.rank() - (tb ? 1 : 2);
    m = a.size(a.rank() - (ta ? 1 : 2));
    k = a.size(k_dim_lhs);
    k_rhs = b.size(k_dim_rhs);
    n = b.size(b.rank() - (tb ? 2 : 1));
  }
};

absl::StatusOr<std::vector<Type>> Infer(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireSameDType(call));
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 2));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 1, 2));
  Sides sides(call);
  if (sides.k != sides.k_rhs) {
    return Invalid(
        "contracting sizes differ: lhs dim {} is {}, rhs dim {} is {}",
        sides.k_dim_lhs, sides.k, sides.k_dim_rhs, sides.k_rhs);
  }
  std::vector<Type> batch = {call.operands[0], call.operands[1]};
  for (Type& type : batch) type.dims.resize(type.rank() - 2);
  ASYRA_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(batch));
  shape.push_back(sides.m);
  shape.push_back(sides.n);
  return std::vector<Type>{Type(call.operands[0].dtype, shape)};
}

absl::StatusOr<AxisRule> Axes(const OpCall& call) {
  return ParseAxisRule(
      fmt::format("... {}, ... {} -> ... m n",
                  TransposeA(call.attrs) ? "k m" : "m k",
                  call.attrs.Bool("transpose_b") ? "n k" : "k n"),
      call.operands, call.results, Linearity::kEach);
}

bool HasOddRows(const OpCall& local) {
  auto odd = [](const Type& type) {
    return SizeOf(type.dtype) == 2 && type.dims.back().size > 1 &&
           type.dims.back().size % 2 == 1;
  };
  return odd(local.operands[0]) || odd(local.operands[1]) ||
         odd(local.results[0]);
}

Work MatmulWork(const OpCall& local) {
  Work work;
  work.odd_rows = HasOddRows(local);
  work.flops = 2.0 * static_cast<double>(local.results[0].num_elements()) *
               static_cast<double>(Sides(local).k);
  work.read_bytes = static_cast<double>(local.operands[0].bytes() +
                                        local.operands[1].bytes());
  work.write_bytes = static_cast<double>(local.results[0].bytes());
  work.matrix = true;
  // A right side of one matrix makes one matmul of all rows.
  const Type& result = local.results[0];
  work.cols = static_cast<double>(result.dims.back().size);
  work.rows = static_cast<double>(result.dims[result.rank() - 2].size);
  double matmuls = static_cast<double>(result.num_elements()) /
                   std::max(1.0, work.rows * work.cols);
  (local.operands[1].rank() > 2 ? work.batch : work.rows) *= matmuls;
  return work;
}

// Matrices [rows, columns], one after the other, transposed.
std::vector<double> SwapLastTwo(const std::vector<double>& matrices,
                                int64_t rows, int64_t columns) {
  std::vector<double> swapped(matrices.size());
  int64_t size = rows * columns;
  int64_t total = static_cast<int64_t>(matrices.size());
  for (int64_t base = 0; base < total; base += size) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        swapped[base + c * rows + r] = matrices[base + r * columns + c];
      }
    }
  }
  return swapped;
}

absl::Status Reference(const RefCall& call) {
  const Tensor& a = call.operands[0];
  const Tensor& b = call.operands[1];
  Tensor& out = call.results[0];
  bool ta = TransposeA(call.attrs), tb = call.attrs.Bool("transpose_b");
  int64_t m = out.size(out.rank() - 2), n = out.size(out.rank() - 1);
  int64_t k = a.size(a.rank() - (ta ? 2 : 1));
  std::vector<double> lhs = a.ToDoubles();
  // [..., k, n], so that the inner loop runs along memory.
  std::vector<double> rhs =
      tb ? SwapLastTwo(b.ToDoubles(), n, k) : b.ToDoubles();
  // Each batch of the result finds its matrices by broadcasting.
  auto batch_of = [](const Tensor& t) {
    return Shape(t.shape().begin(), t.shape().end() - 2);
  };
  auto a_batch = BroadcastIndex(batch_of(a), batch_of(out));
  auto b_batch = BroadcastIndex(batch_of(b), batch_of(out));
  std::vector<double> matmul(out.num_elements(), 0.0);
  for (int64_t i = 0; i < NumElements(batch_of(out)); ++i) {
    const double* x = lhs.data() + a_batch(i) * m * k;
    const double* y = rhs.data() + b_batch(i) * k * n;
    double* z = matmul.data() + i * m * n;
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t p = 0; p < k; ++p) {
        double left = ta ? x[p * m + r] : x[r * k + p];
        for (int64_t c = 0; c < n; ++c) z[r * n + c] += left * y[p * n + c];
      }
    }
  }
  out.SetAll(matmul);
  return absl::OkStatus();
}

ValueId Matmul(Gradient& g, ValueId a, ValueId b, bool ta, bool tb) {
  return g.Op("matmul", {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}});
}

// matmul_wgrad --------------------------------------------------------------

// Leading dimensions that the result has too.
int Kept(const AttrMap& attrs) { return static_cast<int>(attrs.Int("keep")); }

absl::StatusOr<std::vector<Type>> InferWgrad(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireSameDType(call));
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 2));
  const Type& lhs = call.operands[0];
  const Type& rhs = call.operands[1];
  if (lhs.rank() != rhs.rank()) {
    return Invalid("lhs has rank {}, rhs {}", lhs.rank(), rhs.rank());
  }
  int last = lhs.rank() - 1;
  int64_t keep = call.attrs.Int("keep");
  if (keep < 0 || keep >= last) {
    return Invalid("keep is {}, it should be in [0, {}]", keep, last - 1);
  }
  for (int d = 0; d < last; ++d) {
    if (lhs.size(d) == rhs.size(d)) continue;
    return Invalid("dim {} is {}, but has size {} in lhs and {} in rhs", d,
                   d < keep ? "kept" : "summed", lhs.size(d), rhs.size(d));
  }
  Shape shape = lhs.shape();
  shape.resize(keep);
  shape.insert(shape.end(), {lhs.size(last), rhs.size(last)});
  return std::vector<Type>{Type(SumType(lhs.dtype), shape)};
}

absl::StatusOr<AxisRule> WgradAxes(const OpCall& call) {
  std::string rows = DimSpec(0, call.operands[0].rank() - 1);
  std::string kept = DimSpec(0, Kept(call.attrs));
  return ParseAxisRule(fmt::format("{} m, {} n -> {} m n", rows, rows, kept),
                       call.operands, call.results, Linearity::kEach);
}

Work WgradWork(const OpCall& local) {
  const Type& result = local.results[0];
  double columns = static_cast<double>(result.dims.back().size);
  Work work;
  work.flops =
      2.0 * columns * static_cast<double>(local.operands[0].num_elements());
  for (const Type& type : local.operands) {
    work.read_bytes += static_cast<double>(type.bytes());
  }
  work.write_bytes = static_cast<double>(result.bytes());
  work.matrix = true;
  work.odd_rows = HasOddRows(local);
  work.rows = static_cast<double>(result.size(result.rank() - 2));
  work.cols = columns;
  work.batch = static_cast<double>(result.num_elements()) /
               std::max(1.0, work.rows * work.cols);
  return work;
}

absl::Status WgradReference(const RefCall& call) {
  const Tensor& lhs = call.operands[0];
  const Tensor& rhs = call.operands[1];
  std::vector<double> a = lhs.ToDoubles(), b = rhs.ToDoubles();
  int64_t m = lhs.size(lhs.rank() - 1), n = rhs.size(rhs.rank() - 1);
  int64_t matmuls = 1, rows = 1;
  for (int d = 0; d + 1 < lhs.rank(); ++d) {
    (d < Kept(call.attrs) ? matmuls : rows) *= lhs.size(d);
  }
  std::vector<double> sums(matmuls * m * n, 0.0);
  for (int64_t r = 0; r < matmuls * rows; ++r) {
    double* sum = sums.data() + r / rows * m * n;
    for (int64_t i = 0; i < m; ++i) {
      double left = a[r * m + i];
      for (int64_t j = 0; j < n; ++j) sum[i * n + j] += left * b[r * n + j];
    }
  }
  call.results[0].SetAll(sums);
  return absl::OkStatus();
}

// y = sum over rows of lhs[r, m] rhs[r, n].
Gradients WgradVjp(Gradient& g) {
  ValueId dy = g.Cast(g.dy(), g.type(g.x(0)).dtype);
  int keep = Kept(g.attrs()), rank = g.type(g.x(0)).rank();
  if (keep > 0 && keep + 2 < rank) {  // dims of 1 where others are summed
    Shape shape = g.type(dy).shape();
    shape.insert(shape.begin() + keep, rank - keep - 2, 1);
    dy = g.Op("reshape", {dy}, {{"shape", Ints(shape.begin(), shape.end())}});
  }
  return {Matmul(g, g.x(1), dy, false, true),
          Matmul(g, g.x(0), dy, false, false)};
}

// The gradient of a weight is summed over all rows of all batches in one
// matmul, instead of one matmul a batch and a sum after it.
bool IsWeightOfRows(Gradient& g) {
  const Type& a = g.type(g.x(0));
  return g.type(g.x(1)).rank() == 2 && !g.attrs().Bool("transpose_a") &&
         a.num_elements() > 0 && g.type(g.y()).num_elements() > 0;
}

Gradients MatmulVjp(Gradient& g) {
  bool ta = g.attrs().Bool("transpose_a"), tb = g.attrs().Bool("transpose_b");
  ValueId a = g.x(0), b = g.x(1), dy = g.dy();
  ValueId da = ta ? Matmul(g, b, dy, tb, true) : Matmul(g, dy, b, false, !tb);
  if (IsWeightOfRows(g)) {
    return {da,
            tb ? g.Op("matmul_wgrad", {dy, a}) : g.Op("matmul_wgrad", {a, dy})};
  }
  ValueId db = tb ? Matmul(g, dy, a, true, ta) : Matmul(g, a, dy, !ta, false);
  return {da, db};
}

// grouped_matmul ------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferGrouped(const OpCall& call) {
  const Type& rows = call.operands[0];
  const Type& weights = call.operands[1];
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 3));
  if (weights.rank() != 3) {
    return Invalid("weights have rank {}, it should be 3", weights.rank());
  }
  int64_t groups = rows.size(rows.rank() - 3);
  if (groups != weights.size(0)) {
    return Invalid("rows are in {} groups, weights in {}", groups,
                   weights.size(0));
  }
  double occupancy = call.attrs.Float("occupancy");
  if (!(occupancy > 0 && occupancy <= 1)) {
    return Invalid("occupancy is {}, it should be in (0, 1]", occupancy);
  }
  return Infer(call);
}

// Kernels compute rows of zeros like any other.
Work GroupedWork(const OpCall& local) {
  Work work = MatmulWork(local);
  work.useful = local.attrs.Float("occupancy");
  return work;
}

Gradients GroupedVjp(Gradient& g) {
  bool tb = g.attrs().Bool("transpose_b");
  ValueId rows = g.x(0), dy = g.dy();
  AttrMap keep = {{"keep", int64_t{g.type(rows).rank() - 2}}};
  ValueId dw = tb ? g.Op("matmul_wgrad", {dy, rows}, keep)
                  : g.Op("matmul_wgrad", {rows, dy}, keep);
  return {
      g.Op("grouped_matmul", {dy, g.x(1)},
           {{"transpose_b", !tb}, {"occupancy", g.attrs().Float("occupancy")}}),
      dw};
}

}  // namespace

std::vector<OpDef> MatmulOps() {
  return {
      {.name = "matmul",
       .summary = "lhs[..., m, k] * rhs[..., k, n], summed in f32 or wider; "
                  "leading dimensions broadcast",
       .operands = {{"lhs"}, {"rhs"}},
       .attrs = {{"transpose_a", AttrKind::kBool, "lhs is [..., k, m]", false},
                 {"transpose_b", AttrKind::kBool, "rhs is [..., n, k]", false}},
       .infer = Infer,
       .axes = Axes,
       .work = MatmulWork,
       .vjp = Vjp<MatmulVjp>,
       .reference = Reference,
       .samples = {{"matmul(f32[4,6], f32[6,8])"},
                   {"matmul(f32[2,4,6], f32[6,8])"},
                   {"matmul(f32[2,1,4,6], f32[4,6,8])"},
                   {"matmul(f32[2,4,6], f32[8,6]) {transpose_b=true}"},
                   {"matmul(f32[6,4], f32[6,8]) {transpose_a=true}"},
                   {"matmul(f32[6,4], f32[8,6]) {transpose_a=true, "
                    "transpose_b=true}"}},
       .fusable = Fusable::kMatmul},
      {.name = "matmul_wgrad",
       .summary = "lhs[..., r, m] * rhs[..., r, n] summed over all dimensions "
                  "but m, n and the first `keep`, as the gradient of a weight "
                  "is: f32 of 16-bit operands",
       .operands = {{"lhs"}, {"rhs"}},
       .attrs = {{"keep", AttrKind::kInt,
                  "leading dimensions that are not summed, as those of groups",
                  int64_t{0}}},
       .infer = InferWgrad,
       .axes = WgradAxes,
       .work = WgradWork,
       .vjp = Vjp<WgradVjp>,
       .reference = WgradReference,
       .samples = {{"matmul_wgrad(f32[6,4], f32[6,8])"},
                   {"matmul_wgrad(f32[2,6,4], f32[2,6,8])"},
                   {"matmul_wgrad(bf16[2,4,4], bf16[2,4,6])"},
                   {"matmul_wgrad(f32[2,4,6], f32[2,4,8]) {keep=1}"},
                   {"matmul_wgrad(f32[2,4,2,4], f32[2,4,2,6]) {keep=1}"},
                   {"matmul_wgrad(bf16[2,4,2,4], bf16[2,4,2,6]) {keep=2}"}},
       .fusable = Fusable::kMatmul},
      {.name = "grouped_matmul",
       .summary = "rows[..., group, m, k] * weights[group, k, n]: each group "
                  "of rows with its own weights",
       .operands = {{"rows"}, {"weights"}},
       .attrs = {{"transpose_b", AttrKind::kBool, "weights are [group, n, k]",
                  false},
                 {"occupancy", AttrKind::kFloat,
                  "the share of rows that is expected not to be padding, "
                  "which is computed all the same: what of it is useful",
                  1.0}},
       .infer = InferGrouped,
       .axes = Axes,
       .work = GroupedWork,
       .vjp = Vjp<GroupedVjp>,
       .reference = Reference,
       .samples = {{"grouped_matmul(f32[2,4,6], f32[2,6,8])"},
                   {"grouped_matmul(f32[2,4,4,6], f32[4,8,6]) "
                    "{transpose_b=true, occupancy=0.5}"}}}};
}

}  // namespace asyra::ops
