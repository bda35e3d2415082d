// Attention over grouped heads, and rotary position embedding.
#include <cmath>

#include "ir/ops/gradient.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_list.h"

namespace asyra::ops {
namespace {

// Sizes of q [B, S, H, D], k [B, T, G, D] and v [B, T, G, E].
struct Sizes {
  int64_t b, s, h, d, t, kv_heads, e;
  template <typename Shaped>  // types or tensors
  explicit Sizes(absl::Span<const Shaped> x)
      : b(x[0].size(0)),
        s(x[0].size(1)),
        h(x[0].size(2)),
        d(x[0].size(3)),
        t(x[1].size(1)),
        kv_heads(x[1].size(2)),
        e(x[2].size(3)) {}
};

absl::Status CheckMask(const OpCall& call, const Sizes& sizes) {
  if (call.operands.size() < 4) return absl::OkStatus();
  const Type& mask = call.operands[3];
  if (mask.dtype != DType::kBool && !IsFloat(mask.dtype)) {
    return Invalid("the mask is {}, it should be bool or a float type",
                   ToString(mask.dtype));
  }
  const Shape full = {sizes.b, sizes.h, sizes.s, sizes.t};
  bool fits = mask.rank() == 4;
  for (int d = 0; fits && d < 4; ++d) {
    fits = mask.size(d) == 1 || mask.size(d) == full[d];
  }
  if (fits) return absl::OkStatus();
  return Invalid("the mask has shape {}, it does not broadcast to {}",
                 ShapeToString(mask.shape()), ShapeToString(full));
}

absl::StatusOr<std::vector<Type>> InferAttention(const OpCall& call) {
  for (int i = 0; i < 3; ++i) {
    const Type& type = call.operands[i];
    if (type.rank() != 4 || type.dtype != call.operands[0].dtype) {
      return Invalid("{} is {}, it should be {} of rank 4",
                     call.def.operands[i].name, ToString(type, {}),
                     ToString(call.operands[0].dtype));
    }
  }
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  Sizes sizes(call.operands);
  const Type& k = call.operands[1];
  const Type& v = call.operands[2];
  for (auto [name, of_k, other, of_other] :
       {std::tuple("batch", k.size(0), "q", sizes.b),
        std::tuple("head", k.size(3), "q", sizes.d),
        std::tuple("batch", k.size(0), "v", v.size(0)),
        std::tuple("key", k.size(1), "v", v.size(1)),
        std::tuple("number of heads", k.size(2), "v", v.size(2))}) {
    if (of_k != of_other) {
      return Invalid("{} sizes differ: k has {}, {} has {}", name, of_k, other,
                     of_other);
    }
  }
  if (sizes.kv_heads < 1 || sizes.h % sizes.kv_heads != 0) {
    return Invalid("{} query heads are not a multiple of {} key heads", sizes.h,
                   sizes.kv_heads);
  }
  if (call.attrs.Int("window") < 0) {
    return Invalid("window is {}", call.attrs.Int("window"));
  }
  ASYRA_RETURN_IF_ERROR(CheckMask(call, sizes));
  return std::vector<Type>{
      Type(call.operands[0].dtype, {sizes.b, sizes.s, sizes.h, sizes.e})};
}

absl::StatusOr<AxisRule> AttentionAxes(const OpCall& call) {
  std::string spec = "b @s (h g) !d, b !t h !d, b !t h !e";
  if (call.operands.size() > 3) {
    spec += ",";
    const char* factors[] = {" b", " (h g)", " s", " !t"};
    for (int d = 0; d < 4; ++d) {
      spec += call.operands[3].size(d) == 1 ? " _" : factors[d];
    }
  }
  return ParseAxisRule(spec + " -> b @s (h g) !e", call.operands, call.results);
}

// Query-key pairs that `s` rows look at among `t` keys. Fewer rows than keys
// are taken to be the last ones: they see the most, and where rows are sharded
// the device that has them is the one all others wait for.
double VisiblePairs(double s, double t, bool causal, int64_t window) {
  double rows = std::min(s, t), extra = s - rows;
  double w = window > 0 ? std::min(static_cast<double>(window), t) : t;
  double pairs = causal ? rows * t - rows * (rows - 1) / 2 : rows * t;
  // Row r no longer sees keys up to r - w.
  double from = std::max(t - rows, w);
  pairs -= (t - from) * ((from - w + 1) + (t - w)) / 2;
  return pairs + extra * w;
}

Work AttentionWork(const OpCall& local) {
  Sizes sizes(local.operands);
  Work work = {.flops = 0, .read_bytes = 0, .write_bytes = 0, .matrix = true};
  double pairs =
      static_cast<double>(sizes.b * sizes.h) *
      VisiblePairs(static_cast<double>(sizes.s), static_cast<double>(sizes.t),
                   local.attrs.Bool("causal"), local.attrs.Int("window"));
  work.flops = 2.0 * pairs * static_cast<double>(sizes.d + sizes.e);
  for (const Type& type : local.operands) {
    work.read_bytes += static_cast<double>(type.bytes());
  }
  work.write_bytes = static_cast<double>(local.results[0].bytes());
  return work;
}

class AttentionRun {
 public:
  explicit AttentionRun(const RefCall& call)
      : sizes_(call.operands),
        causal_(call.attrs.Bool("causal")),
        window_(call.attrs.Int("window")),
        scale_(call.attrs.Float("scale")),
        softcap_(call.attrs.Float("softcap")),
        hidden_(call.attrs.Float("hidden")),
        first_row_(call.Start(0, 1)),
        q_(call.operands[0].ToDoubles()),
        k_(call.operands[1].ToDoubles()),
        v_(call.operands[2].ToDoubles()),
        scores_(sizes_.t),
        out_(call.results[0].num_elements(), 0.0) {
    if (call.operands.size() < 4) return;
    const Tensor& mask = call.operands[3];
    mask_ = mask.ToDoubles();
    if (mask.dtype() == DType::kBool) {
      for (double& value : mask_) value = value != 0 ? 0 : kHidden;
    }
    mask_index_.emplace(
        BroadcastIndex(mask.shape(), {sizes_.b, sizes_.h, sizes_.s, sizes_.t}));
  }

  std::vector<double> Run() && {
    for (int64_t b = 0; b < sizes_.b; ++b) {
      for (int64_t s = 0; s < sizes_.s; ++s) {
        for (int64_t h = 0; h < sizes_.h; ++h) Row(b, s, h);
      }
    }
    return std::move(out_);
  }

 private:
  static constexpr double kHidden = -std::numeric_limits<double>::infinity();

  int64_t KeyRow(int64_t b, int64_t t, int64_t h) const {
    return (b * sizes_.t + t) * sizes_.kv_heads +
           h / (sizes_.h / sizes_.kv_heads);
  }

  double Score(int64_t b, int64_t s, int64_t h, int64_t t) const {
    int64_t row = first_row_ + s;
    if ((causal_ && t > row) || (window_ > 0 && t <= row - window_)) {
      return hidden_;
    }
    const double* q = &q_[((b * sizes_.s + s) * sizes_.h + h) * sizes_.d];
    const double* k = &k_[KeyRow(b, t, h) * sizes_.d];
    double score = 0;
    for (int64_t d = 0; d < sizes_.d; ++d) score += q[d] * k[d];
    score *= scale_;
    if (softcap_ > 0) score = softcap_ * std::tanh(score / softcap_);
    if (mask_index_.has_value()) {
      int64_t at = ((b * sizes_.h + h) * sizes_.s + s) * sizes_.t + t;
      score += mask_[(*mask_index_)(at)];
    }
    return score;
  }

  void Row(int64_t b, int64_t s, int64_t h) {
    double largest = kHidden, sum = 0;
    for (int64_t t = 0; t < sizes_.t; ++t) {
      scores_[t] = Score(b, s, h, t);
      largest = std::max(largest, scores_[t]);
    }
    if (largest == kHidden) return;  // sees nothing: zeros
    for (double& score : scores_) {
      score = std::exp(score - largest);
      sum += score;
    }
    double* out = &out_[((b * sizes_.s + s) * sizes_.h + h) * sizes_.e];
    for (int64_t t = 0; t < sizes_.t; ++t) {
      const double* v = &v_[KeyRow(b, t, h) * sizes_.e];
      for (int64_t e = 0; e < sizes_.e; ++e) {
        out[e] += scores_[t] / sum * v[e];
      }
    }
  }

  Sizes sizes_;
  bool causal_;
  int64_t window_;
  double scale_, softcap_, hidden_;
  int64_t first_row_;  // global index of row 0
  std::vector<double> q_, k_, v_, mask_, scores_, out_;
  std::optional<StridedIndex> mask_index_;
};

absl::Status AttentionReference(const RefCall& call) {
  call.results[0].SetAll(AttentionRun(call).Run());
  return absl::OkStatus();
}

// rotary --------------------------------------------------------------------

absl::StatusOr<std::vector<Type>> InferRotary(const OpCall& call) {
  ASYRA_RETURN_IF_ERROR(RequireSameDType(call));
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  const Type& x = call.operands[0];
  const Type& cos = call.operands[1];
  if (x.rank() != 4) return Invalid("x has rank {}, it should be 4", x.rank());
  if (cos.shape() != call.operands[2].shape()) {
    return Invalid("cos has shape {}, sin has {}", ShapeToString(cos.shape()),
                   ShapeToString(call.operands[2].shape()));
  }
  int rank = cos.rank();
  if ((rank != 2 && rank != 3) || cos.size(rank - 2) != x.size(1) ||
      (rank == 3 && cos.size(0) != 1 && cos.size(0) != x.size(0)) ||
      cos.size(rank - 1) > x.size(3) / 2) {
    return Invalid("cos has shape {}, x has {}", ShapeToString(cos.shape()),
                   ShapeToString(x.shape()));
  }
  return SameAsFirst(call);
}

absl::StatusOr<AxisRule> RotaryAxes(const OpCall& call) {
  const Type& cos = call.operands[1];
  std::string table = cos.rank() == 2    ? "s !r"
                      : cos.size(0) == 1 ? "_ s !r"
                                         : "b s !r";
  return ParseAxisRule(
      fmt::format("b s h !d, {}, {} -> b s h !d", table, table), call.operands,
      call.results);
}

absl::Status RotaryReference(const RefCall& call) {
  const Tensor& in = call.operands[0];
  const Tensor& table = call.operands[1];
  int64_t half = table.size(table.rank() - 1);
  bool interleaved = call.attrs.Bool("interleaved");
  std::vector<double> x = in.ToDoubles();
  std::vector<double> cos = table.ToDoubles();
  std::vector<double> sin = call.operands[2].ToDoubles();
  int64_t s = in.size(1), h = in.size(2), d = in.size(3);
  bool per_batch = table.rank() == 3 && table.size(0) > 1;
  for (int64_t row = 0; row < in.size(0) * s; ++row) {
    int64_t angle = (per_batch ? row : row % s) * half;
    for (int64_t head = 0; head < h; ++head) {
      double* values = x.data() + (row * h + head) * d;
      for (int64_t i = 0; i < half; ++i) {
        double& a = values[interleaved ? 2 * i : i];
        double& b = values[interleaved ? 2 * i + 1 : i + half];
        double c = cos[angle + i], w = sin[angle + i];
        double rotated = a * c - b * w;
        b = b * c + a * w;
        a = rotated;
      }
    }
  }
  call.results[0].SetAll(x);
  return absl::OkStatus();
}

// Turns back by the same angles. The angles themselves follow from positions,
// of which there is no gradient.
Gradients RotaryVjp(Gradient& g) {
  return {g.Op("rotary", {g.dy(), g.x(1), g.Neg(g.x(2))}, g.attrs()), kNoValue,
          kNoValue};
}

OpDef Attention() {
  return {
      .name = "attention",
      .summary =
          "softmax(scale q k^T + mask) v; q is [B, S, H, D], k "
          "[B, T, G, D], v [B, T, G, E], query head h reads key head "
          "h / (H / G); a row that sees no key gives 0",
      .operands = {{"q"}, {"k"}, {"v"}, {"mask", OperandDef::kOptional}},
      .attrs = {{"causal", AttrKind::kBool, "row i sees keys <= i", false},
                {"window", AttrKind::kInt,
                 "row i sees keys > i - window; 0: all", int64_t{0}},
                {"scale", AttrKind::kFloat, "of q k^T"},
                {"softcap", AttrKind::kFloat,
                 "c > 0: scores become c tanh(score / c) before the mask", 0.0},
                {"hidden", AttrKind::kFloat,
                 "score of keys that causal and window hide; a finite one is "
                 "what a row shares that sees no key",
                 -std::numeric_limits<double>::infinity()}},
      .infer = InferAttention,
      .axes = AttentionAxes,
      .work = AttentionWork,
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
           "bool[1,1,4,6]) {window=3, scale=0.5}"}}};
}

}  // namespace

std::vector<OpDef> AttentionOps() {
  OpDef rotary{
      .name = "rotary",
      .summary =
          "rotates pairs of the first R elements of the last dim of x "
          "[B, S, H, D] by angles whose cos and sin are [S, R/2] or "
          "[B, S, R/2]",
      .operands = {{"x"}, {"cos"}, {"sin"}},
      .attrs = {{"interleaved", AttrKind::kBool,
                 "pairs (2i, 2i+1) instead of (i, i + R/2)", false}},
      .infer = InferRotary,
      .axes = RotaryAxes,
      .vjp = Vjp<RotaryVjp>,
      .reference = RotaryReference,
      .samples = {{"rotary(f32[2,4,2,6], f32[4,2], f32[4,2])"},
                  {"rotary(f32[2,4,2,4], f32[2,4,2], f32[2,4,2]) "
                   "{interleaved=true}"},
                  {"rotary(bf16[2,4,1,4], bf16[1,4,1], bf16[1,4,1])"}}};
  return {Attention(), rotary};
}

}  // namespace asyra::ops
