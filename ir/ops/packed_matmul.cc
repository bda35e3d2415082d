// Computations on the packed rows of experts (packed_rows.cc): matmuls with
// weights[expert, ...], their gradients, sums and values of each expert.
// Operand `ends` says which rows an expert has.
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

// Rows of a tile of the kernels, which compute whole ones.
constexpr double kTileRows = 128;

// Rows [..., rows, h] of operand `rows` and ends [..., groups, experts] of
// operand `ends`.
absl::Status CheckEnds(const OpCall& call, int rows, int ends) {
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, rows));
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, ends));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, rows, 2));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, ends, 2));
  ASYRA_RETURN_IF_ERROR(RequireSameLead(call, rows, 2, ends, 2));
  int64_t groups = call.operands[ends].dims.end()[-2].size;
  int64_t count = call.operands[rows].dims.end()[-2].size;
  if (groups < 1 || count % groups != 0) {
    return Invalid("{} rows are not a multiple of {} groups", count, groups);
  }
  return absl::OkStatus();
}

absl::Status RequireExperts(const OpCall& call, int weights, int ends) {
  int64_t experts = call.operands[ends].dims.back().size;
  if (call.operands[weights].size(0) == experts) return absl::OkStatus();
  return Invalid("{} are for {} experts, ends for {}",
                 call.def.operands[weights].name,
                 call.operands[weights].size(0), experts);
}

// The rows of a group that each expert has: those from the end of the experts
// before it on. The last has what is left, so that every row has an expert.
class Segments {
 public:
  // `rows` in all groups of `ends` together, of one device.
  Segments(const Tensor& ends, int64_t rows)
      : ends_(ends.ToInts()),
        experts_(ends.size(ends.rank() - 1)),
        groups_(ends.num_elements() / experts_),
        group_rows_(rows / groups_) {
    for (int64_t g = 0; g < groups_; ++g) {
      int64_t last = 0;
      for (int64_t e = 0; e < experts_; ++e) {
        int64_t& end = ends_[g * experts_ + e];
        if (e + 1 == experts_) end = group_rows_;
        last = end = std::clamp(end, last, group_rows_);
      }
    }
  }

  // Calls visit(group, expert, row among all) for each row.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (int64_t g = 0; g < groups_; ++g) {
      int64_t row = 0;
      for (int64_t e = 0; e < experts_; ++e) {
        for (; row < ends_[g * experts_ + e]; ++row) {
          visit(g, e, g * group_rows_ + row);
        }
      }
    }
  }

  int64_t experts() const { return experts_; }

 private:
  std::vector<int64_t> ends_;
  int64_t experts_, groups_, group_rows_;
};

// packed_matmul -------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferMatmul(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckEnds(call, 0, 2));
  const Type& weights = call.operands[1];
  Type rows = call.operands[0];
  if (weights.rank() != 3 || weights.dtype != rows.dtype) {
    return Invalid("weights are {}{}, they should be {}[experts, _, _]",
                   ToString(weights.dtype), ShapeToString(weights.shape()),
                   ToString(rows.dtype));
  }
  ASYRA_RETURN_IF_ERROR(RequireExperts(call, 1, 2));
  bool transpose = call.attrs.Bool("transpose_b");
  int64_t in = weights.size(transpose ? 2 : 1);
  if (in != rows.dims.back().size) {
    return Invalid("rows have {} elements, weights take {}",
                   rows.dims.back().size, in);
  }
  rows.dims.back() = {weights.size(transpose ? 1 : 2), {}};
  if (call.operands.size() == 4) {
    const Type& residual = call.operands[3];
    if (residual.dtype != rows.dtype || residual.shape() != rows.shape()) {
      return Invalid("the residual is {}{}, the result {}{}",
                     ToString(residual.dtype), ShapeToString(residual.shape()),
                     ToString(rows.dtype), ShapeToString(rows.shape()));
    }
  }
  return std::vector<Type>{rows};
}

// "(g !n=4)": the rows of operand 0.
std::string RowsSpec(const OpCall& call, int ends) {
  return fmt::format("(g !n={})", call.operands[0].dims.end()[-2].size /
                                      call.operands[ends].dims.end()[-2].size);
}

absl::StatusOr<AxisRule> MatmulAxes(const OpCall& call) {
  std::string rows = RowsSpec(call, 2);
  bool adds = call.operands.size() == 4;
  ASYRA_ASSIGN_OR_RETURN(
      AxisRule rule,
      ParseAxisRule(
          fmt::format("... {} h, !e {}, ... g !e{} -> ... {} f", rows,
                      call.attrs.Bool("transpose_b") ? "f h" : "h f",
                      adds ? fmt::format(", ... {} f", rows) : "", rows),
          call.operands, call.results,
          adds ? Linearity::kNone : Linearity::kFirst));
  if (!adds) return rule;
  rule.accumulates_on = 3;
  for (Factor& factor : rule.factors) {
    if (factor.kind == FactorKind::kSum) factor.kind = FactorKind::kAccumulated;
  }
  return rule;
}

// A tile of an expert's last rows is half empty in the mean.
Work MatmulWork(const OpCall& local) {
  const Type& rows = local.operands[0];
  const Type& result = local.results[0];
  double in = static_cast<double>(rows.dims.back().size);
  double count = static_cast<double>(rows.num_elements()) / std::max(1.0, in);
  double segments = static_cast<double>(local.operands[2].num_elements());
  Work work;
  work.matrix = true;
  work.rows = count + kTileRows / 2 * std::min(segments, count);
  work.cols = static_cast<double>(result.dims.back().size);
  work.flops = 2 * work.rows * work.cols * in;
  work.useful = work.rows > 0 ? count / work.rows : 1;
  for (const Type& type : local.operands) {
    work.read_bytes += static_cast<double>(type.bytes());
  }
  work.write_bytes = static_cast<double>(result.bytes());
  return work;
}

absl::Status MatmulReference(const RefCall& call) {
  const Tensor& weights = call.operands[1];
  bool transpose = call.attrs.Bool("transpose_b");
  int64_t in = weights.size(transpose ? 2 : 1);
  int64_t out = weights.size(transpose ? 1 : 2);
  std::vector<double> x = call.operands[0].ToDoubles(), w = weights.ToDoubles();
  std::vector<double> y(call.results[0].num_elements(), 0.0);
  if (call.operands.size() == 4) y = call.operands[3].ToDoubles();
  int64_t rows = in > 0 ? call.operands[0].num_elements() / in : 0;
  Segments(call.operands[2], rows)
      .ForEach([&](int64_t, int64_t expert, int64_t row) {
        const double* of = w.data() + expert * in * out;
        for (int64_t i = 0; i < in; ++i) {
          double left = x[row * in + i];
          for (int64_t o = 0; o < out; ++o) {
            y[row * out + o] +=
                left * (transpose ? of[o * in + i] : of[i * out + o]);
          }
        }
      });
  call.results[0].SetAll(y);
  return absl::OkStatus();
}

// packed_wgrad, packed_sum, packed_expand -----------------------------------

absl::StatusOr<std::vector<Type>> InferWgrad(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckEnds(call, 0, 2));
  ASYRA_RETURN_IF_ERROR(CheckEnds(call, 1, 2));
  const Type& lhs = call.operands[0];
  const Type& rhs = call.operands[1];
  if (lhs.dtype != rhs.dtype ||
      lhs.dims.end()[-2].size != rhs.dims.end()[-2].size) {
    return Invalid("lhs is {}{}, rhs is {}{}", ToString(lhs.dtype),
                   ShapeToString(lhs.shape()), ToString(rhs.dtype),
                   ShapeToString(rhs.shape()));
  }
  Shape shape = lhs.shape();
  shape.end()[-2] = call.operands[2].dims.back().size;
  shape.push_back(rhs.dims.back().size);
  return std::vector<Type>{Type(SumType(lhs.dtype), shape)};
}

absl::StatusOr<AxisRule> WgradAxes(const OpCall& call) {
  std::string rows = RowsSpec(call, 2);
  return ParseAxisRule(
      fmt::format("... {} a, ... {} b, ... g !e -> ... !e a b", rows, rows),
      call.operands, call.results, Linearity::kFirst);
}

Work WgradWork(const OpCall& local) {
  const Type& result = local.results[0];
  Work work;
  work.matrix = true;
  work.rows = static_cast<double>(result.dims.end()[-2].size);
  work.cols = static_cast<double>(result.dims.back().size);
  work.batch = static_cast<double>(result.num_elements()) /
               std::max(1.0, work.rows * work.cols);
  work.flops =
      2.0 * work.cols * static_cast<double>(local.operands[0].num_elements());
  for (const Type& type : local.operands) {
    work.read_bytes += static_cast<double>(type.bytes());
  }
  work.write_bytes = static_cast<double>(result.bytes());
  return work;
}

// Groups of one leading index.
int64_t GroupsOfLead(const Tensor& ends) { return ends.size(ends.rank() - 2); }

absl::Status WgradReference(const RefCall& call) {
  const Tensor& ends = call.operands[2];
  int64_t m = call.operands[0].size(call.operands[0].rank() - 1);
  int64_t n = call.operands[1].size(call.operands[1].rank() - 1);
  std::vector<double> a = call.operands[0].ToDoubles(),
                      b = call.operands[1].ToDoubles();
  std::vector<double> sums(call.results[0].num_elements(), 0.0);
  Segments segments(ends, m > 0 ? call.operands[0].num_elements() / m : 0);
  segments.ForEach([&](int64_t group, int64_t expert, int64_t row) {
    int64_t lead = group / GroupsOfLead(ends);
    double* sum = sums.data() + (lead * segments.experts() + expert) * m * n;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        sum[i * n + j] += a[row * m + i] * b[row * n + j];
      }
    }
  });
  call.results[0].SetAll(sums);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> InferSum(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckEnds(call, 0, 1));
  Type sum = call.operands[0];
  sum.dims.end()[-2] = {call.operands[1].dims.back().size, {}};
  return std::vector<Type>{sum};
}

absl::StatusOr<AxisRule> SumAxes(const OpCall& call) {
  return ParseAxisRule(
      fmt::format("... {} h, ... g !e -> ... !e h", RowsSpec(call, 1)),
      call.operands, call.results, Linearity::kFirst);
}

absl::Status SumReference(const RefCall& call) {
  const Tensor& ends = call.operands[1];
  int64_t h = call.operands[0].size(call.operands[0].rank() - 1);
  std::vector<double> x = call.operands[0].ToDoubles();
  std::vector<double> sums(call.results[0].num_elements(), 0.0);
  Segments segments(ends, h > 0 ? call.operands[0].num_elements() / h : 0);
  segments.ForEach([&](int64_t group, int64_t expert, int64_t row) {
    int64_t to = group / GroupsOfLead(ends) * segments.experts() + expert;
    for (int64_t c = 0; c < h; ++c) sums[to * h + c] += x[row * h + c];
  });
  call.results[0].SetAll(sums);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> InferExpand(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 1));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 1, 2));
  const Type& values = call.operands[0];
  if (values.rank() != 2) {
    return Invalid("values have rank {}, it should be 2", values.rank());
  }
  ASYRA_RETURN_IF_ERROR(RequireExperts(call, 0, 1));
  int64_t rows = call.attrs.Int("group_rows"), count = 0;
  Type out = call.operands[1];
  out.dtype = values.dtype;
  if (rows < 0 ||
      __builtin_mul_overflow(rows, out.dims.end()[-2].size, &count)) {
    return Invalid("group_rows is {}", rows);
  }
  out.dims.end()[-2] = {count, {}};
  out.dims.back() = {values.size(1), {}};
  return std::vector<Type>{out};
}

absl::StatusOr<AxisRule> ExpandAxes(const OpCall& call) {
  return ParseAxisRule(fmt::format("!e h, ... g !e -> ... (g !n={}) h",
                                   call.attrs.Int("group_rows")),
                       call.operands, call.results, Linearity::kFirst);
}

absl::Status ExpandReference(const RefCall& call) {
  const Tensor& values = call.operands[0];
  int64_t h = values.size(1), bytes = h * SizeOf(values.dtype());
  int64_t rows = h > 0 ? call.results[0].num_elements() / h : 0;
  Segments(call.operands[1], rows)
      .ForEach([&](int64_t, int64_t expert, int64_t row) {
        std::memcpy(call.results[0].mutable_data() + row * bytes,
                    values.data() + expert * bytes, bytes);
      });
  return absl::OkStatus();
}

}  // namespace

std::vector<OpDef> PackedMatmulOps() {
  return {
      {.name = "packed_matmul",
       .summary = "rows[..., rows, k] * weights[expert, k, n], each row with "
                  "the weights of its expert, plus the residual if given",
       .operands = {{"rows"},
                    {"weights"},
                    {"ends"},
                    {"residual", OperandDef::kOptional}},
       .attrs = {{"transpose_b", AttrKind::kBool, "weights are [expert, n, k]",
                  false}},
       .infer = InferMatmul,
       .axes = MatmulAxes,
       .work = MatmulWork,
       .reference = MatmulReference,
       .samples = {{"packed_matmul(f32[8,6], f32[3,6,4], i32[2,3])", 0, 4},
                   {"packed_matmul(bf16[2,16,8], bf16[4,16,8], i32[2,2,4]) "
                    "{transpose_b=true}",
                    0, 3},
                   {"packed_matmul(f32[8,6], f32[3,6,4], i32[2,3], f32[8,4])",
                    0, 4}}},
      {.name = "packed_wgrad",
       .summary = "lhs[..., rows, m] * rhs[..., rows, n] summed over the rows "
                  "of each expert, [..., expert, m, n]: f32 of 16-bit operands",
       .operands = {{"lhs"}, {"rhs"}, {"ends"}},
       .infer = InferWgrad,
       .axes = WgradAxes,
       .work = WgradWork,
       .reference = WgradReference,
       .samples = {{"packed_wgrad(f32[8,6], f32[8,4], i32[2,3])", 0, 4},
                   {"packed_wgrad(bf16[2,16,8], bf16[2,16,16], i32[2,2,4])", 0,
                    8}}},
      {.name = "packed_sum",
       .summary = "the sum of the rows of each expert, [..., expert, h]",
       .operands = {{"rows"}, {"ends"}},
       .infer = InferSum,
       .axes = SumAxes,
       .reference = SumReference,
       .samples = {{"packed_sum(f32[8,6], i32[2,3])", 0, 4},
                   {"packed_sum(f32[2,16,8], i32[2,2,4])", 0, 8}}},
      {.name = "packed_expand",
       .summary = "values[expert, h] for each row of their expert",
       .operands = {{"values"}, {"ends"}},
       .attrs = {{"group_rows", AttrKind::kInt, "rows of a group"}},
       .infer = InferExpand,
       .axes = ExpandAxes,
       .reference = ExpandReference,
       .samples = {
           {"packed_expand(f32[3,6], i32[2,3]) {group_rows=4}", 0, 4},
           {"packed_expand(bf16[4,8], i32[2,2,4]) {group_rows=8}", 0, 8}}}};
}

}  // namespace asyra::ops
