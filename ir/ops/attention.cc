// Attention over grouped heads, and its gradients. A gradient computes the
// weights anew from q, k and v, so that no S x T matrix is kept.
#include "ir/ops/attention.h"

#include "ir/ops/gradient.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

Type ResultType(const OpCall& call) {
  AttentionSizes sizes(call.operands);
  return Type(call.operands[0].dtype, {sizes.b, sizes.s, sizes.h, sizes.e});
}

Type LogSumsType(const OpCall& call) {
  AttentionSizes sizes(call.operands);
  bool wide = call.operands[0].dtype == DType::kF64;
  return Type(wide ? DType::kF64 : DType::kF32, {sizes.b, sizes.h, sizes.s});
}

absl::StatusOr<std::vector<Type>> InferAttention(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckAttention(call, kFirstExtra));
  std::vector<Type> results = {ResultType(call)};
  if (call.attrs.Bool("log_sums")) results.push_back(LogSumsType(call));
  return results;
}

// Returns whether the visible keys depend on the row's position; otherwise all
// rows see the same keys.
bool RowsArePositional(const AttrMap& attrs) {
  return attrs.Bool("causal") || attrs.Int("window") > 0 ||
         attrs.Int("window_after") > 0;
}

absl::StatusOr<AxisRule> AttentionAxes(const OpCall& call) {
  std::string rows = RowSpec(call, false), keys = KeySpec(call);
  return ParseAxisRule(
      fmt::format("b {} (h g) !d, b {} h !d, b {} h !e{} -> b {} (h g) !e{}",
                  RowSpec(call, RowsArePositional(call.attrs)), keys, keys,
                  ExtraSpecs(call, kFirstExtra), rows,
                  call.attrs.Bool("log_sums") ? ", b (h g) " + rows : ""),
      call.operands, call.results);
}

// The weight of a visible pair: scale, maximum, exponential (which runs at a
// quarter of the rate), sum, and the rescaling of what was summed before.
constexpr double kFlopsPerWeight = 9;

// `products` multiplications and additions for each visible pair.
Work PairWork(const OpCall& local, int64_t products) {
  Work work = {.flops = 0, .read_bytes = 0, .write_bytes = 0, .matrix = true};
  double pairs = VisiblePairs(local);
  work.flops = 2.0 * pairs * static_cast<double>(products);
  work.vector_flops = kFlopsPerWeight * pairs;
  // Each CTA of a kernel computes some queries of one head.
  AttentionSizes sizes(local.operands);
  work.batch = static_cast<double>(sizes.b * sizes.h);
  work.rows = static_cast<double>(sizes.s);
  work.cols = static_cast<double>(sizes.e);
  for (const Type& type : local.operands) {
    work.read_bytes += static_cast<double>(type.bytes());
  }
  for (const Type& type : local.results) {
    work.write_bytes += static_cast<double>(type.bytes());
  }
  return work;
}

Work AttentionWork(const OpCall& local) {
  AttentionSizes sizes(local.operands);
  return PairWork(local, sizes.d + sizes.e);
}

// Calls visit(b, s, h) for every row of q.
template <typename Visit>
void ForEachRow(const AttentionSizes& sizes, Visit visit) {
  for (int64_t b = 0; b < sizes.b; ++b) {
    for (int64_t s = 0; s < sizes.s; ++s) {
      for (int64_t h = 0; h < sizes.h; ++h) visit(b, s, h);
    }
  }
}

absl::Status AttentionReference(const RefCall& call) {
  AttentionRows rows(call, kFirstExtra);
  const AttentionSizes& sizes = rows.sizes();
  std::vector<double> out(call.results[0].num_elements(), 0.0);
  std::vector<double> log_sums(sizes.b * sizes.h * sizes.s);
  ForEachRow(sizes, [&](int64_t b, int64_t s, int64_t h) {
    bool has_weights = rows.Compute(b, s, h);
    log_sums[(b * sizes.h + h) * sizes.s + s] = rows.log_sum();
    if (!has_weights) return;
    double* to = &out[rows.QueryRow(b, s, h) * sizes.e];
    for (int64_t t = 0; t < sizes.t; ++t) {
      const double* v = &rows.v()[rows.KeyRow(b, t, h) * sizes.e];
      for (int64_t e = 0; e < sizes.e; ++e) to[e] += rows.weights()[t] * v[e];
    }
  });
  call.results[0].SetAll(out);
  if (call.results.size() > 1) call.results[1].SetAll(log_sums);
  return absl::OkStatus();
}

// attention_grad ------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferGrad(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(CheckAttention(call, kFirstGradExtra));
  for (const auto& [operand, type] :
       {std::pair(kGradY, ResultType(call)),
        std::pair(kGradLogSums, LogSumsType(call)),
        std::pair(kGradDy, ResultType(call))}) {
    if (call.operands[operand] == type) continue;
    return Invalid("{} is {}, it should be {}", call.def.operands[operand].name,
                   ToString(call.operands[operand], {}), ToString(type, {}));
  }
  const std::string& of = call.attrs.Get<std::string>("of");
  AttentionExtras extras(call.operands, kFirstGradExtra);
  if (of == "qkv") {
    return std::vector<Type>(call.operands.begin(), call.operands.begin() + 3);
  }
  bool mask = of == "mask" && extras.mask >= 0;
  if (mask && IsFloat(call.operands[extras.mask].dtype)) {
    return std::vector<Type>{call.operands[extras.mask]};
  }
  if (of == "sinks" && extras.sinks >= 0) {
    return std::vector<Type>{call.operands[extras.sinks]};
  }
  return Invalid("there is no gradient of '{}' here", of);
}

// Query rows are reduced in results without them: sharded rows give partial
// gradients of keys.
absl::StatusOr<AxisRule> GradAxes(const OpCall& call) {
  const std::string& of = call.attrs.Get<std::string>("of");
  AttentionExtras extras(call.operands, kFirstGradExtra);
  std::string rows = RowSpec(call, true), keys = KeySpec(call);
  auto qkv =
      fmt::format("b {} (h g) !d, b {} h !d, b {} h !e", rows, keys, keys);
  std::string result = of == "qkv"    ? qkv
                       : of == "mask" ? ExtraSpec(call, extras.mask)
                                      : ExtraSpec(call, extras.sinks);
  return ParseAxisRule(
      fmt::format("{}, b {} (h g) !e, b (h g) {}, b {} (h g) !e{} -> {}", qkv,
                  rows, rows, rows, ExtraSpecs(call, kFirstGradExtra), result),
      call.operands, call.results);
}

// Scores and gradients of weights, and the matmuls that `of` needs. The library
// sums the gradient of q in f32 and, where several heads share a key, has
// gradients of k and v for each of them.
Work GradWork(const OpCall& local) {
  AttentionSizes sizes(local.operands);
  if (local.attrs.Get<std::string>("of") != "qkv") {
    return PairWork(local, sizes.d + sizes.e);
  }
  Work work = PairWork(local, 3 * sizes.d + 2 * sizes.e);
  const Type &q = local.operands[0], &k = local.operands[1],
             &v = local.operands[2];
  work.scratch_bytes = 4 * static_cast<double>(q.num_elements());
  if (sizes.h > sizes.kv_heads) {
    work.scratch_bytes += static_cast<double>(k.bytes() + v.bytes()) *
                          static_cast<double>(sizes.h) /
                          static_cast<double>(sizes.kv_heads);
  }
  return work;
}

// Adds factor * from[0, size) to to[0, size).
void AddScaled(double factor, const double* from, int64_t size, double* to) {
  for (int64_t i = 0; i < size; ++i) to[i] += factor * from[i];
}

double Dot(const double* a, const double* b, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

// With weights p and dp[t] = dy . v[t], the scores' gradient is
// ds = p (dp - sum(p dp)), where sum(p dp) = dy . y; the weight of a sink has
// dp = 0.
absl::Status GradReference(const RefCall& call) {
  AttentionRows rows(call, kFirstGradExtra);
  const AttentionSizes& sizes = rows.sizes();
  const std::string& of = call.attrs.Get<std::string>("of");
  AttentionExtras extras(call.operand_types, kFirstGradExtra);
  std::vector<double> y = call.operands[kGradY].ToDoubles(),
                      log_sums = call.operands[kGradLogSums].ToDoubles(),
                      dy = call.operands[kGradDy].ToDoubles();
  std::vector<std::vector<double>> out;
  for (const Tensor& result : call.results) {
    out.emplace_back(result.num_elements(), 0.0);
  }
  std::optional<StridedIndex> mask_element;
  if (extras.mask >= 0) {
    mask_element.emplace(BroadcastIndex(call.operands[extras.mask].shape(),
                                        {sizes.b, sizes.h, sizes.s, sizes.t}));
  }
  ForEachRow(sizes, [&](int64_t b, int64_t s, int64_t h) {
    rows.ComputeFrom(log_sums[(b * sizes.h + h) * sizes.s + s], b, s, h);
    int64_t row = rows.QueryRow(b, s, h), query = row * sizes.d;
    const double* row_dy = &dy[row * sizes.e];
    double mean = Dot(row_dy, &y[row * sizes.e], sizes.e);
    if (of == "sinks") out[0][h] -= rows.sink_weight() * mean;
    for (int64_t t = 0; t < sizes.t; ++t) {
      double weight = rows.weights()[t];
      if (weight == 0) continue;  // hidden
      int64_t key = rows.KeyRow(b, t, h);
      double dp = Dot(row_dy, &rows.v()[key * sizes.e], sizes.e);
      double score = weight * (dp - mean);
      if (of == "qkv") {
        double product = score * rows.slopes()[t];
        AddScaled(product, &rows.k()[key * sizes.d], sizes.d, &out[0][query]);
        AddScaled(product, &rows.q()[query], sizes.d, &out[1][key * sizes.d]);
        AddScaled(weight, row_dy, sizes.e, &out[2][key * sizes.e]);
      } else if (of == "mask") {
        out[0][(*mask_element)(rows.MaskElement(b, s, h, t))] += score;
      }
    }
  });
  for (size_t i = 0; i < out.size(); ++i) call.results[i].SetAll(out[i]);
  return absl::OkStatus();
}

// Computes the op once more where it was not asked for its log sums.
Gradients AttentionVjp(Gradient& g) {
  std::vector<ValueId> inputs, results = {g.y()};
  std::vector<Type> types;
  for (int i = 0; i < g.num_operands(); ++i) {
    inputs.push_back(g.x(i));
    types.push_back(g.type(g.x(i)));
  }
  AttrMap attrs = g.attrs();
  if (attrs.Bool("log_sums")) {
    results.push_back(g.y(1));
  } else {
    attrs.Set("log_sums", true);
    results = g.Ops("attention", inputs, attrs);
  }
  std::vector<ValueId> operands = {g.x(0),     g.x(1),     g.x(2),
                                   results[0], results[1], g.dy()};
  operands.insert(operands.end(), inputs.begin() + kFirstExtra, inputs.end());
  attrs.Erase("log_sums");
  auto of = [&](std::string_view what) {
    attrs.Set("of", std::string(what));
    return g.Ops("attention_grad", operands, attrs);
  };
  Gradients gradients = of("qkv");
  AttentionExtras extras(types, kFirstExtra);
  for (int i = kFirstExtra; i < g.num_operands(); ++i) {
    bool has = IsFloat(types[i].dtype);
    gradients.push_back(!has ? kNoValue
                             : of(i == extras.mask ? "mask" : "sinks")[0]);
  }
  return gradients;
}

OpDef Attention() {
  OpDef def = {
      .name = "attention",
      .summary =
          "softmax(scale q k^T + mask) v; q is [B, S, H, D], k "
          "[B, T, G, D], v [B, T, G, E], query head h reads key head "
          "h / (H / G). Keys from lengths[b] on are hidden, and those before "
          "starts[b, s] from row s; the score "
          "sinks[h] takes its weight from all keys of a row; a row whose "
          "scores are all -inf gives 0. With log_sums also the log of the sum "
          "of exp(score) of each row, [B, H, S]",
      .operands = {{"q"},
                   {"k"},
                   {"v"},
                   {"mask", OperandDef::kOptional},
                   {"lengths", OperandDef::kOptional},
                   {"sinks", OperandDef::kOptional},
                   {"starts", OperandDef::kOptional}},
      .attrs = AttentionAttrs(),
      .infer = InferAttention,
      .axes = AttentionAxes,
      .work = AttentionWork,
      .vjp = Vjp<AttentionVjp>,
      .gradient_attr = "log_sums",
      .reference = AttentionReference,
      .samples = {
          {"attention(f32[2,4,4,2], f32[2,6,2,2], f32[2,6,2,4]) {scale=0.5}"},
          {"attention(f32[2,4,4,2], f32[2,4,1,2], f32[2,4,1,2]) "
           "{causal=true, scale=0.5, softcap=2.0}"},
          {"attention(f32[2,4,2,2], f32[2,4,2,2], f32[2,4,2,2]) "
           "{causal=true, window=2, scale=1.0}"},
          {"attention(f32[2,4,2,2], f32[2,6,2,2], f32[2,6,2,2], "
           "f32[2,1,1,6]) {causal=true, scale=1.0, hidden=-4.0}"},
          {"attention(f32[2,4,4,2], f32[2,6,2,2], f32[2,6,2,2], "
           "f32[2,4,4,6]) {scale=0.5}"},
          {"attention(f32[2,4,4,2], f32[2,6,4,2], f32[2,6,4,2], "
           "bool[1,1,4,6]) {window=3, scale=0.5}"},
          {"attention(f32[2,4,2,2], f32[2,6,2,2], f32[2,6,2,2], "
           "bool[2,1,1,6]) {causal=true, scale=0.5, hidden=-1e9}",
           0, 1},
          {"attention(f32[2,4,2,2], f32[2,6,2,2], f32[2,6,2,2], "
           "bool[2,1,4,6]) {window=2, scale=0.5, empty_is_nan=true}",
           0, 1},
          {"attention(f32[2,4,4,2], f32[2,6,2,2], f32[2,6,2,2], i64[2]) "
           "{causal=true, at_end=true, scale=0.5}",
           4, 6},
          {"attention(f32[2,2,4,2], f32[2,6,2,2], f32[2,6,2,2], "
           "f32[1,4,1,6], i32[2], f32[4]) {window_after=2, window=3, "
           "offset=3, scale=0.25}",
           1, 6},
          {"attention(f32[2,4,4,2], f32[2,6,2,2], f32[2,6,2,4]) "
           "{causal=true, offset=2, scale=0.5, log_sums=true}"},
          {"attention(f32[1,6@a,2,2], f32[1,12,2,2], f32[1,12,2,2]) "
           "{causal=true, offset=6, runs=-2, scale=0.5}",
           -3, 3, "(a=2)"},
          {"attention(f32[1,8@a,4,2], f32[1,8@a,2,2], f32[1,8@a,2,2], f32[4]) "
           "{causal=true, shards=2, shift=1, scale=0.5, log_sums=true}",
           -3, 3, "(a=2)"},
          {"attention(f32[1,4@a,2,2], f32[1,8@a,2,2], f32[1,8@a,2,2]) "
           "{causal=true, offset=4, runs=-2, shards=2, scale=0.5}",
           -3, 3, "(a=2)"},
          {"attention(f32[2,4,2,2], f32[2,8,2,2], f32[2,8,2,2], "
           "f32[1,2,4,8]) {causal=true, window=3, runs=2, scale=0.5}"},
          {"attention(f32[2,4,4,2], f32[2,6,2,2], f32[2,6,2,2], i32[2], "
           "f32[4]) {window=3, offset=3, scale=0.25, log_sums=true}",
           0, 4},
          {"attention(f32[2,4,4,2], f32[2,4,2,2], f32[2,4,2,2], i64[2,4]) "
           "{causal=true, scale=0.5, log_sums=true}",
           0, 3},
          {"attention(f32[1,4@a,2,2], f32[1,8,2,2], f32[1,8,2,2], "
           "i32[1,4@a]) {causal=true, offset=4, runs=-2, scale=0.5}",
           0, 6, "(a=2)"},
          {"attention(f32[2,4,2,2], f32[2,6,2,2], f32[2,6,2,2], "
           "f32[1,2,4,6], f32[2], i64[2,4]) {window=4, scale=0.5}",
           -1, 5}}};
  def.attrs.push_back({"log_sums", AttrKind::kBool,
                       "gives the rows' log sums too, which gradients read",
                       false});
  return def;
}

OpDef AttentionGrad() {
  OpDef def = {
      .name = "attention_grad",
      .summary =
          "gradients of attention by its operands, from its results and the "
          "gradient dy of the first",
      .operands = {{"q"},
                   {"k"},
                   {"v"},
                   {"y"},
                   {"log_sums"},
                   {"dy"},
                   {"mask", OperandDef::kOptional},
                   {"lengths", OperandDef::kOptional},
                   {"sinks", OperandDef::kOptional},
                   {"starts", OperandDef::kOptional}},
      .attrs = AttentionAttrs(),
      .infer = InferGrad,
      .axes = GradAxes,
      .work = GradWork,
      .reference = GradReference,
      .samples = {
          {"attention_grad(f32[2,4,4,2], f32[2,6,2,2], f32[2,6,2,4], "
           "f32[2,4,4,4], f32[2,4,4], f32[2,4,4,4]) "
           "{of=\"qkv\", causal=true, offset=2, scale=0.5}"},
          {"attention_grad(f32[2,4,4,2], f32[2,6,2,2], f32[2,6,2,4], "
           "f32[2,4,4,4], f32[2,4,4], f32[2,4,4,4]) "
           "{of=\"qkv\", causal=true, window=3, scale=0.5, softcap=2.0}"},
          {"attention_grad(f32[1,4@a,2,2], f32[1,8,2,2], f32[1,8,2,2], "
           "f32[1,4@a,2,2], f32[1,2,4@a], f32[1,4@a,2,2]) "
           "{of=\"qkv\", causal=true, offset=4, runs=-2, scale=0.5}",
           -3, 3, "(a=2)"},
          {"attention_grad(f32[1,4@a,2,2], f32[1,8@a,2,2], f32[1,8@a,2,2], "
           "f32[1,4@a,2,2], f32[1,2,4@a], f32[1,4@a,2,2]) "
           "{of=\"qkv\", causal=true, offset=4, runs=-2, shards=2, shift=1, "
           "scale=0.5}",
           -3, 3, "(a=2)"},
          {"attention_grad(f32[2,4,4,2], f32[2,6,2,2], f32[2,6,2,2], "
           "f32[2,4,4,2], f32[2,4,4], f32[2,4,4,2], f32[1,4,4,6], i64[2]) "
           "{of=\"mask\", scale=0.5}",
           1, 6},
          {"attention_grad(f32[2,4,4,2], f32[2,6,2,2], f32[2,6,2,2], "
           "f32[2,4,4,2], f32[2,4,4], f32[2,4,4,2], f32[4]) "
           "{of=\"sinks\", scale=0.5}"},
          {"attention_grad(f32[2,4,4,2], f32[2,4,2,2], f32[2,4,2,2], "
           "f32[2,4,4,2], f32[2,4,4], f32[2,4,4,2], i32[2,4]) "
           "{of=\"qkv\", causal=true, scale=0.5}",
           0, 3}}};
  def.attrs.push_back({"of", AttrKind::kString, "qkv, mask or sinks"});
  return def;
}

}  // namespace

std::vector<OpDef> AttentionOps() { return {Attention(), AttentionGrad()}; }

}  // namespace asyra::ops
