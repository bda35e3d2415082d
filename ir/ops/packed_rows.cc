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
#include "ir/ops/expert_choices.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

// Error: `rows` that are no whole number for each of `tokens`, or these no
// whole groups.
absl::Status CheckRouting(const OpCall& call, int64_t tokens, int64_t rows) {
  ASYRA_RETURN_IF_ERROR(RequireGroups(call, tokens));
  if (tokens > 0 && rows % tokens == 0) return absl::OkStatus();
  return Invalid("{} rows are not a multiple of {} tokens", rows, tokens);
}

// moe_sort ------------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferSort(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 0));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 2));
  Type places = call.operands[0];
  int64_t tokens = places.dims.end()[-2].size, k = places.dims.back().size;
  ASYRA_RETURN_IF_ERROR(CheckRouting(call, tokens, tokens * k));
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
  ASYRA_RETURN_IF_ERROR(CheckRouting(call, rows.dims.end()[-2].size, count));
  if (call.operands.size() == 3) {
    Type weights = rows;
    int64_t tokens = rows.dims.end()[-2].size;
    weights.dims.back() = {count / tokens, {}};
    ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
    ASYRA_RETURN_IF_ERROR(RequireTypes(call, 2, weights));
  }
  rows.dims.end()[-2] = {count, {}};
  return std::vector<Type>{rows};
}

absl::StatusOr<AxisRule> DispatchAxes(const OpCall& call) {
  int64_t s = call.attrs.Int("group_size");
  int64_t k =
      call.operands[1].dims.back().size / call.operands[0].dims.end()[-2].size;
  std::string weights =
      call.operands.size() == 3 ? fmt::format(", ... (g !s={}) !k", s) : "";
  return ParseAxisRule(
      fmt::format("... (g !s={}) h, ... (g !n={}){} -> ... (g !n={}) h", s,
                  s * k, weights, s * k),
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
  const bool weighs = call.operands.size() == 3;
  std::vector<double> values, weights, out;
  if (weighs) {
    values = x.ToDoubles();
    weights = call.operands[2].ToDoubles();
  }
  for (int64_t row = 0; row < rows; ++row) {
    if (sources[row] < 0 || sources[row] >= n) {
      return Invalid("source {} is not in [0, {})", sources[row], n);
    }
    int64_t token = row / n * s + sources[row] / k;
    if (weighs) {
      double weight = weights[row / n * n + sources[row]];
      for (int64_t c = 0; c < h; ++c) {
        out.push_back(weight * values[token * h + c]);
      }
      continue;
    }
    std::memcpy(call.results[0].mutable_data() + row * h * size,
                x.data() + token * h * size, h * size);
  }
  if (weighs) call.results[0].SetAll(out);
  return absl::OkStatus();
}

// packed_collect, packed_combine, packed_dot ----------------------------------

// Rows [..., tokens * k, h] and places [..., tokens, k].
absl::Status CheckPlaces(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 0, 2));
  ASYRA_RETURN_IF_ERROR(RequireInteger(call, 1));
  ASYRA_RETURN_IF_ERROR(RequireRank(call, 1, 2));
  ASYRA_RETURN_IF_ERROR(RequireSameLead(call, 0, 2, 1, 2));
  const Type& places = call.operands[1];
  int64_t tokens = places.dims.end()[-2].size, k = places.dims.back().size;
  int64_t rows = call.operands[0].dims.end()[-2].size;
  ASYRA_RETURN_IF_ERROR(CheckRouting(call, tokens, rows));
  if (tokens * k == rows) return absl::OkStatus();
  return Invalid("{} tokens choose {} each, there are {} rows", tokens, k,
                 rows);
}

absl::StatusOr<std::vector<Type>> InferCollect(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckPlaces(call));
  return InferCollected(call);
}

absl::StatusOr<std::vector<Type>> InferCombine(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckPlaces(call));
  return InferCombined(call);
}

absl::StatusOr<std::vector<Type>> InferDot(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckPlaces(call));
  Type dots = call.operands[1], tokens = call.operands[1];
  dots.dtype = tokens.dtype = call.operands[0].dtype;
  tokens.dims.back() = call.operands[0].dims.back();
  ASYRA_RETURN_IF_ERROR(RequireTypes(call, 2, tokens));
  return std::vector<Type>{dots};
}

absl::StatusOr<AxisRule> DotAxes(const OpCall& call) {
  int64_t s = call.attrs.Int("group_size");
  int64_t n = s * call.operands[1].dims.back().size;
  return ParseAxisRule(
      fmt::format("... (g !n={}) h, ... (g !s={}) !k, ... (g !s={}) h -> "
                  "... (g !s={}) !k",
                  n, s, s, s),
      call.operands, call.results, Linearity::kFirst);
}

absl::StatusOr<AxisRule> CollectAxes(const OpCall& call) {
  int64_t n = call.attrs.Int("group_size") * call.operands[1].dims.back().size;
  return CollectRule(call, fmt::format("(g !n={})", n));
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

absl::Status DotReference(const RefCall& call) {
  std::vector<double> from = call.operands[0].ToDoubles();
  std::vector<double> tokens = call.operands[2].ToDoubles();
  int64_t h = call.operands[0].size(call.operands[0].rank() - 1);
  int64_t k = call.operands[1].size(call.operands[1].rank() - 1);
  ASYRA_ASSIGN_OR_RETURN(std::vector<int64_t> rows, RowsOfChoices(call));
  std::vector<double> out(rows.size(), 0.0);
  for (size_t i = 0; i < rows.size(); ++i) {
    int64_t token = static_cast<int64_t>(i) / k;
    for (int64_t c = 0; c < h; ++c) {
      out[i] += from[rows[i] * h + c] * tokens[token * h + c];
    }
  }
  call.results[0].SetAll(out);
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
       .summary = "a row of tokens x[..., tokens, h] for each choice, times "
                  "its weight if given, in the order of sources",
       .operands = {{"x"}, {"sources"}, {"weights", OperandDef::kOptional}},
       .attrs = {GroupSize()},
       .infer = InferDispatch,
       .axes = DispatchAxes,
       .work = MoveWork,
       .reference = DispatchReference,
       .samples = {{"packed_dispatch(f32[4,6], i32[8]) {group_size=4}", 0, 7},
                   {"packed_dispatch(bf16[2,8,8], i32[2,16]) {group_size=4}", 0,
                    7},
                   {"packed_dispatch(f32[2,8,8], i32[2,16], f32[2,8,2]) "
                    "{group_size=4}",
                    0, 7}}},
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
      {.name = "packed_dot",
       .summary = "the product of each choice's row with its token's of "
                  "tokens[..., tokens, h]",
       .operands = {{"rows"}, {"places"}, {"tokens"}},
       .attrs = {GroupSize()},
       .infer = InferDot,
       .axes = DotAxes,
       .work = CollectWork,
       .reference = DotReference,
       .samples = {
           {"packed_dot(f32[8,6], i32[4,2], f32[4,6]) {group_size=4}", 0, 7},
           {"packed_dot(bf16[2,8,8], i32[2,4,2], bf16[2,4,8]) {group_size=2}",
            0, 3}}}};
}

}  // namespace asyra::ops
