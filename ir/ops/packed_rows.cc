// Mixture of experts whose rows are packed: those of an expert follow each
// other, and no row is free, where the slots of moe_dispatch have rows for
// choices that nobody makes.
//
//   places, sources, ends = moe_sort(experts)
//   rows = packed_dispatch(x, sources)          [..., groups * choices, hidden]
//   rows = packed_matmul(rows, w, ends) ...
//   y = packed_combine(rows, places, weights)
//
// `group_size` consecutive tokens form a group, whose choices are sorted by
// expert, then by (token, choice). Groups can be sharded, choices of a group
// cannot. Integers are i32: places[..., token, choice] is the row of a choice
// in its group, sources[..., group * row] the choice (token * k + choice) that
// has a row, ends[..., group, expert] the row behind the last of an expert.
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

// Rows of a tile of the kernels, which compute whole ones.
constexpr double kTileRows = 128;

// sizes ---------------------------------------------------------------------

// Sizes of a routing, global or local.
struct Routing {
  int64_t tokens = 0, chosen = 0, group_size = 0;
  int64_t group_rows() const { return group_size * chosen; }
};

// From `tokens` that have `rows`, both along one dimension. Errors: sizes that
// do not divide.
absl::StatusOr<Routing> RoutingOf(const OpCall& call, int64_t tokens,
                                  int64_t rows) {
  Routing routing{tokens, 0, call.attrs.Int("group_size")};
  if (routing.group_size < 1 || tokens % routing.group_size != 0) {
    return Invalid("group_size is {}, it does not divide {} tokens",
                   routing.group_size, tokens);
  }
  if (tokens == 0 || rows % tokens != 0) {
    return Invalid("{} rows are not a multiple of {} tokens", rows, tokens);
  }
  routing.chosen = rows / tokens;
  return routing;
}

// Leading dimensions are equal, all but the last `of_a` and `of_b`.
absl::Status RequireSameLead(const OpCall& call, int a, int of_a, int b,
                             int of_b) {
  auto lead = [&](int operand, int trailing) {
    Shape shape = call.operands[operand].shape();
    shape.resize(shape.size() - trailing);
    return shape;
  };
  if (lead(a, of_a) == lead(b, of_b)) return absl::OkStatus();
  return Invalid("leading dimensions differ: {} has {}, {} has {}",
                 call.def.operands[a].name, ShapeToString(lead(a, of_a)),
                 call.def.operands[b].name, ShapeToString(lead(b, of_b)));
}

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

// Which rows of a group each expert has: those from the end of the experts
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

// moe_sort ------------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferSort(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 0));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 2));
  Type places = call.operands[0];
  int64_t tokens = places.dims.end()[-2].size, k = places.dims.back().size;
  ASYRA_RETURN_IF_ERROR(RoutingOf(call, tokens, tokens * k).status());
  int64_t experts = call.attrs.Int("num_experts");
  if (experts < 1) return Invalid("num_experts is {}", experts);
  places.dtype = DType::kI32;
  Type sources = places, ends = places;
  sources.dims.pop_back();
  sources.dims.back() = {tokens * k, {}};
  ends.dims.end()[-2] = {tokens / call.attrs.Int("group_size"), {}};
  ends.dims.back() = {experts, {}};
  return std::vector<Type>{places, sources, ends};
}

absl::StatusOr<AxisRule> SortAxes(const OpCall& call) {
  int64_t s = call.attrs.Int("group_size");
  return ParseAxisRule(
      fmt::format("... (g !s={}) !k -> ... (g !s={}) !k, ... (g !n={}), "
                  "... g !e",
                  s, s, s * call.operands[0].dims.back().size),
      call.operands, call.results);
}

absl::Status SortReference(const RefCall& call) {
  std::vector<int64_t> experts = call.operands[0].ToInts();
  int64_t k = call.operands[0].size(call.operands[0].rank() - 1);
  int64_t rows = k * call.attrs.Int("group_size");
  int64_t count = call.attrs.Int("num_experts");
  std::vector<double> places(experts.size()), sources(experts.size());
  std::vector<double> ends;
  for (size_t group = 0; group < experts.size(); group += rows) {
    int64_t row = 0;
    for (int64_t e = 0; e < count; ++e) {
      for (int64_t i = 0; i < rows; ++i) {
        if (experts[group + i] != e) continue;
        places[group + i] = static_cast<double>(row);
        sources[group + row++] = static_cast<double>(i);
      }
      ends.push_back(static_cast<double>(row));
    }
    if (row < rows) return Invalid("experts are not all in [0, {})", count);
  }
  call.results[0].SetAll(places);
  call.results[1].SetAll(sources);
  call.results[2].SetAll(ends);
  return absl::OkStatus();
}

// packed_dispatch -----------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferDispatch(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 2));
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 1));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 1, 1));
  ASYRA_RETURN_IF_ERROR(RequireSameLead(call, 0, 2, 1, 1));
  Type rows = call.operands[0];
  int64_t count = call.operands[1].dims.back().size;
  ASYRA_RETURN_IF_ERROR(
      RoutingOf(call, rows.dims.end()[-2].size, count).status());
  rows.dims.end()[-2] = {count, {}};
  return std::vector<Type>{rows};
}

absl::StatusOr<AxisRule> DispatchAxes(const OpCall& call) {
  int64_t s = call.attrs.Int("group_size");
  int64_t k =
      call.operands[1].dims.back().size / call.operands[0].dims.end()[-2].size;
  return ParseAxisRule(
      fmt::format("... (g !s={}) h, ... (g !n={}) -> ... (g !n={}) h", s, s * k,
                  s * k),
      call.operands, call.results, Linearity::kFirst);
}

absl::Status DispatchReference(const RefCall& call) {
  const Tensor& x = call.operands[0];
  std::vector<int64_t> sources = call.operands[1].ToInts();
  int64_t h = x.size(x.rank() - 1), size = SizeOf(x.dtype());
  int64_t rows = static_cast<int64_t>(sources.size());
  int64_t tokens = h > 0 ? x.num_elements() / h : 0;
  if (tokens == 0) return absl::OkStatus();
  int64_t s = call.attrs.Int("group_size"), k = rows / tokens, n = s * k;
  for (int64_t row = 0; row < rows; ++row) {
    if (sources[row] < 0 || sources[row] >= n) {
      return Invalid("source {} is not in [0, {})", sources[row], n);
    }
    int64_t token = row / n * s + sources[row] / k;
    std::memcpy(call.results[0].mutable_data() + row * h * size,
                x.data() + token * h * size, h * size);
  }
  return absl::OkStatus();
}

// packed_collect, packed_combine --------------------------------------------

// Rows [..., tokens * k, h] and places [..., tokens, k].
absl::StatusOr<Type> CheckPlaces(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 2));
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 1));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 1, 2));
  ASYRA_RETURN_IF_ERROR(RequireSameLead(call, 0, 2, 1, 2));
  Type choices = call.operands[1];
  int64_t tokens = choices.dims.end()[-2].size, k = choices.dims.back().size;
  int64_t rows = call.operands[0].dims.end()[-2].size;
  ASYRA_RETURN_IF_ERROR(RoutingOf(call, tokens, rows).status());
  if (tokens * k != rows) {
    return Invalid("{} tokens choose {} each, there are {} rows", tokens, k,
                   rows);
  }
  choices.dtype = call.operands[0].dtype;
  return choices;
}

absl::StatusOr<std::vector<Type>> InferCollect(const OpCall& call) {
  ASYRA_ASSIGN_OR_RETURN(Type out, CheckPlaces(call));
  out.dims.push_back(call.operands[0].dims.back());
  return std::vector<Type>{out};
}

absl::StatusOr<std::vector<Type>> InferCombine(const OpCall& call) {
  ASYRA_ASSIGN_OR_RETURN(Type out, CheckPlaces(call));
  const Type& weights = call.operands[2];
  if (weights.dtype != out.dtype || weights.shape() != out.shape()) {
    return Invalid("weights are {}{}, they should be {}{}",
                   ToString(weights.dtype), ShapeToString(weights.shape()),
                   ToString(out.dtype), ShapeToString(out.shape()));
  }
  out.dims.back() = call.operands[0].dims.back();
  return std::vector<Type>{out};
}

absl::StatusOr<AxisRule> CollectAxes(const OpCall& call) {
  int64_t s = call.attrs.Int("group_size");
  int64_t n = s * call.operands[1].dims.back().size;
  bool combine = call.operands.size() == 3;
  std::string choices = fmt::format("... (g !s={}) !k", s);
  return ParseAxisRule(
      fmt::format("... (g !n={}) h, {}{} -> {} h", n, choices,
                  combine ? ", " + choices : "",
                  combine ? fmt::format("... (g !s={})", s) : choices),
      call.operands, call.results, Linearity::kFirst);
}

Work CollectWork(const OpCall& local) {
  Work work;
  work.flops = 2 * static_cast<double>(local.operands[0].num_elements());
  for (const Type& type : local.operands) {
    work.read_bytes += static_cast<double>(type.bytes());
  }
  work.write_bytes = static_cast<double>(local.results[0].bytes());
  return work;
}

// The row among all of each choice on this device.
absl::StatusOr<std::vector<int64_t>> RowsOfChoices(const RefCall& call) {
  std::vector<int64_t> rows = call.operands[1].ToInts();
  int64_t k = call.operands[1].size(call.operands[1].rank() - 1);
  int64_t n = k * call.attrs.Int("group_size");
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= n) {
      return Invalid("place {} is not in [0, {})", rows[i], n);
    }
    rows[i] += static_cast<int64_t>(i) / n * n;
  }
  return rows;
}

absl::Status CollectReference(const RefCall& call) {
  const Tensor& from = call.operands[0];
  int64_t bytes = from.size(from.rank() - 1) * SizeOf(from.dtype());
  ASYRA_ASSIGN_OR_RETURN(std::vector<int64_t> rows, RowsOfChoices(call));
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(call.results[0].mutable_data() + i * bytes,
                from.data() + rows[i] * bytes, bytes);
  }
  return absl::OkStatus();
}

absl::Status CombineReference(const RefCall& call) {
  std::vector<double> from = call.operands[0].ToDoubles();
  std::vector<double> weights = call.operands[2].ToDoubles();
  int64_t h = call.operands[0].size(call.operands[0].rank() - 1);
  int64_t k = call.operands[1].size(call.operands[1].rank() - 1);
  ASYRA_ASSIGN_OR_RETURN(std::vector<int64_t> rows, RowsOfChoices(call));
  std::vector<double> out(call.results[0].num_elements(), 0.0);
  for (size_t i = 0; i < rows.size(); ++i) {
    double* to = out.data() + static_cast<int64_t>(i) / k * h;
    for (int64_t c = 0; c < h; ++c) {
      to[c] += weights[i] * from[rows[i] * h + c];
    }
  }
  call.results[0].SetAll(out);
  return absl::OkStatus();
}

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
  return std::vector<Type>{rows};
}

// "(g !n=4)": the rows of operand 0.
std::string RowsSpec(const OpCall& call, int ends) {
  return fmt::format("(g !n={})", call.operands[0].dims.end()[-2].size /
                                      call.operands[ends].dims.end()[-2].size);
}

absl::StatusOr<AxisRule> MatmulAxes(const OpCall& call) {
  std::string rows = RowsSpec(call, 2);
  return ParseAxisRule(
      fmt::format("... {} h, !e {}, ... g !e -> ... {} f", rows,
                  call.attrs.Bool("transpose_b") ? "f h" : "h f", rows),
      call.operands, call.results, Linearity::kFirst);
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

AttrDef GroupSize() {
  return {"group_size", AttrKind::kInt, "consecutive tokens that are sorted"};
}

}  // namespace

std::vector<OpDef> PackedRowsOps() {
  return {
      {.name = "moe_sort",
       .summary = "the order of choices [..., tokens, k] by expert: places, "
                  "sources and ends of packed rows",
       .operands = {{"experts"}},
       .attrs = {{"num_experts", AttrKind::kInt, "number of experts"},
                 GroupSize()},
       .infer = InferSort,
       .axes = SortAxes,
       .reference = SortReference,
       .samples = {{"moe_sort(i64[4,2]) {num_experts=4, group_size=4}", 0, 3},
                   {"moe_sort(i32[2,8,2]) {num_experts=5, group_size=4}", 0,
                    3}}},
      {.name = "packed_dispatch",
       .summary = "a row of tokens x[..., tokens, h] for each choice, in the "
                  "order of sources",
       .operands = {{"x"}, {"sources"}},
       .attrs = {GroupSize()},
       .infer = InferDispatch,
       .axes = DispatchAxes,
       .work = MoveWork,
       .reference = DispatchReference,
       .samples = {{"packed_dispatch(f32[4,6], i32[8]) {group_size=4}", 0, 7},
                   {"packed_dispatch(bf16[2,8,8], i32[2,16]) {group_size=4}", 0,
                    7}}},
      {.name = "packed_collect",
       .summary = "the row of each choice, [..., token, choice, h]",
       .operands = {{"rows"}, {"places"}},
       .attrs = {GroupSize()},
       .infer = InferCollect,
       .axes = CollectAxes,
       .work = CollectWork,
       .reference = CollectReference,
       .samples = {{"packed_collect(f32[8,6], i32[4,2]) {group_size=4}", 0, 7},
                   {"packed_collect(bf16[2,8,8], i32[2,4,2]) {group_size=2}", 0,
                    3}}},
      {.name = "packed_combine",
       .summary = "the weighted sum of each token's rows, [..., token, h]",
       .operands = {{"rows"}, {"places"}, {"weights"}},
       .attrs = {GroupSize()},
       .infer = InferCombine,
       .axes = CollectAxes,
       .work = CollectWork,
       .reference = CombineReference,
       .samples =
           {{"packed_combine(f32[8,6], i32[4,2], f32[4,2]) {group_size=4}", 0,
             7},
            {"packed_combine(bf16[2,8,8], i32[2,4,2], bf16[2,4,2]) "
             "{group_size=2}",
             0, 3}}},
      {.name = "packed_matmul",
       .summary = "rows[..., rows, k] * weights[expert, k, n], each row with "
                  "the weights of its expert",
       .operands = {{"rows"}, {"weights"}, {"ends"}},
       .attrs = {{"transpose_b", AttrKind::kBool, "weights are [expert, n, k]",
                  false}},
       .infer = InferMatmul,
       .axes = MatmulAxes,
       .work = MatmulWork,
       .reference = MatmulReference,
       .samples = {{"packed_matmul(f32[8,6], f32[3,6,4], i32[2,3])", 0, 4},
                   {"packed_matmul(bf16[2,16,8], bf16[4,16,8], i32[2,2,4]) "
                    "{transpose_b=true}",
                    0, 3}}},
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
