#include "models/decoder.h"

#include <cmath>

#include "absl/strings/str_replace.h"
#include "fmt/format.h"
#include "ir/ops/moe_slots.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class DecoderBuilder : DecoderParts {
 public:
  explicit DecoderBuilder(const DecoderConfig& config)
      : DecoderParts(config.name, config.sizes),
        config_(config),
        names_(config.names) {}

  absl::StatusOr<Program> Build() {
    ASYRA_ASSIGN_OR_RETURN(ValueId x, Embedded());
    for (int64_t i = 0; i < sizes_.layers; ++i) {
      EnterLayer(
          absl::StrReplaceAll(names_.layer, {{"{}", fmt::to_string(i)}}));
      layer_ = config_.layers[i % config_.layers.size()];
      ASYRA_ASSIGN_OR_RETURN(x, config_.parallel ? Parallel(x) : InTurn(x));
    }
    LeaveLayers();
    ASYRA_ASSIGN_OR_RETURN(x, LastTokens(x));
    ASYRA_ASSIGN_OR_RETURN(x, Norm(x, names_.norm));
    ASYRA_ASSIGN_OR_RETURN(x, Logits(x));
    builder_.Output(x, kNoValue, "logits");
    return std::move(builder_).Finish();
  }

 private:
  absl::StatusOr<ValueId> Scalar(double value, ValueId like) {
    return builder_.Constant(
        Tensor::FromDoubles(builder_.type(like).dtype, {}, {value}));
  }

  absl::StatusOr<ValueId> Scaled(std::string_view op, ValueId x, double factor,
                                 std::string_view name) {
    ASYRA_ASSIGN_OR_RETURN(ValueId scalar, Scalar(factor, x));
    return Add(op, {x, scalar}, name);
  }

  absl::StatusOr<ValueId> Embedded() {
    if (config_.positions > 0 && sizes_.seq > config_.positions) {
      return Invalid("seq is {}, the model has {} positions", sizes_.seq,
                     config_.positions);
    }
    ValueId ids = Ids();
    table_ = Weight(names_.embedding, {sizes_.vocabulary, sizes_.hidden});
    for (const RotaryForm& form : config_.rotary) {
      Shape shape = {sizes_.seq, form.size / 2};
      ValueId cos = Weight(fmt::format("{}.cos", form.name), shape);
      ValueId sin = Weight(fmt::format("{}.sin", form.name), shape);
      tables_.emplace_back(cos, sin);
    }
    ASYRA_ASSIGN_OR_RETURN(ValueId x,
                           Add("embedding", {table_, ids}, "embedding"));
    if (config_.embedding_scale != 1) {
      ASYRA_ASSIGN_OR_RETURN(
          x, Scaled("mul", x, config_.embedding_scale, "embedding.scaled"));
    }
    if (config_.positions == 0) return x;
    ASYRA_ASSIGN_OR_RETURN(ValueId positions, Positions());
    return Add("add", {x, positions}, "embedded");
  }

  absl::StatusOr<ValueId> Positions() {
    ASYRA_ASSIGN_OR_RETURN(ValueId ids, Add("iota", {}, "position_ids",
                                            {{"shape", Ints{1, sizes_.seq}},
                                             {"dim", int64_t{1}},
                                             {"dtype", DType::kI64}}));
    ValueId table =
        Weight(names_.positions, {config_.positions, sizes_.hidden});
    return Add("embedding", {table, ids}, "positions");
  }

  absl::StatusOr<ValueId> Logits(ValueId x) {
    if (config_.tied) {
      ASYRA_ASSIGN_OR_RETURN(
          x, Add("matmul", {x, table_}, "logits", {{"transpose_b", true}}));
    } else {
      ASYRA_ASSIGN_OR_RETURN(x, Linear(x, names_.head, sizes_.vocabulary));
    }
    if (config_.logit_cap == 0) return x;
    double cap = config_.logit_cap;
    ASYRA_ASSIGN_OR_RETURN(x, Scaled("div", x, cap, "logits.by_cap"));
    ASYRA_ASSIGN_OR_RETURN(x, Add("tanh", {x}, "logits.tanh"));
    return Scaled("mul", x, cap, "logits.capped");
  }

  // x itself where there is no such norm.
  absl::StatusOr<ValueId> Norm(ValueId x, std::string_view name) {
    if (name.empty()) return x;
    if (config_.norm == NormKind::kRms) return RmsNorm(x, name, config_.eps);
    Shape shape = {builder_.type(x).dims.back().size};
    ValueId scale = Weight(name, shape);
    if (config_.norm == NormKind::kLayer) {
      return Add("layer_norm", {x, scale, Bias(name, shape)}, name,
                 {{"eps", config_.eps}});
    }
    ASYRA_ASSIGN_OR_RETURN(
        scale, Scaled("add", scale, 1, fmt::format("{}.scale", name)));
    return Add("rms_norm", {x, scale}, name, {{"eps", config_.eps}});
  }

  ValueId Bias(std::string_view name, const Shape& shape) {
    return WeightCalled(fmt::format("{}{}", name, names_.bias), shape);
  }

  // x W, and a bias if the module has one.
  absl::StatusOr<ValueId> Module(ValueId x, std::string_view name, int64_t out,
                                 bool bias) {
    int64_t in = builder_.type(x).dims.back().size;
    std::string matmul =
        bias ? fmt::format("{}.matmul", name) : std::string(name);
    AttrMap attrs;
    if (!config_.in_out) attrs.Set("transpose_b", true);
    Shape shape = config_.in_out ? Shape{in, out} : Shape{out, in};
    ASYRA_ASSIGN_OR_RETURN(
        x, Add("matmul", {x, Weight(name, shape)}, matmul, attrs));
    if (!bias) return x;
    return Add("add", {x, Bias(name, {out})}, name);
  }

  absl::StatusOr<ValueId> InTurn(ValueId x) {
    ASYRA_ASSIGN_OR_RETURN(ValueId h, Norm(x, names_.attention_norm));
    ASYRA_ASSIGN_OR_RETURN(h, Attention(h));
    ASYRA_ASSIGN_OR_RETURN(h, Norm(h, names_.after_attention));
    ASYRA_ASSIGN_OR_RETURN(x, Add("add", {x, h}, "attention.residual"));
    ASYRA_ASSIGN_OR_RETURN(h, Norm(x, names_.mlp_norm));
    ASYRA_ASSIGN_OR_RETURN(h, FeedForward(h));
    ASYRA_ASSIGN_OR_RETURN(h, Norm(h, names_.after_mlp));
    return Add("add", {x, h}, "mlp.residual");
  }

  absl::StatusOr<ValueId> Parallel(ValueId x) {
    ASYRA_ASSIGN_OR_RETURN(ValueId a, Norm(x, names_.attention_norm));
    ASYRA_ASSIGN_OR_RETURN(a, Attention(a));
    ASYRA_ASSIGN_OR_RETURN(ValueId h, Norm(x, names_.mlp_norm));
    ASYRA_ASSIGN_OR_RETURN(h, FeedForward(h));
    ASYRA_ASSIGN_OR_RETURN(h, Add("add", {h, a}, "mlp.attention"));
    return Add("add", {h, x}, "mlp.residual");
  }

  absl::StatusOr<ValueId> Part(ValueId x, std::string_view name, int64_t start,
                               int64_t size) {
    int64_t dim = builder_.type(x).rank() - 1;
    return Add("slice", {x}, name,
               {{"dim", dim}, {"start", start}, {"stop", start + size}});
  }

  struct Qkv {
    ValueId q, k, v;
  };

  // Each [batch, seq, heads, head size].
  absl::StatusOr<Qkv> Heads(ValueId x) {
    int64_t q_size = sizes_.heads * config_.head_size,
            kv_size = config_.kv_heads * config_.head_size;
    Qkv heads;
    bool bias = config_.qkv_bias;
    if (config_.qkv == QkvWeights::kApart) {
      ASYRA_ASSIGN_OR_RETURN(heads.q, Module(x, names_.q, q_size, bias));
      ASYRA_ASSIGN_OR_RETURN(heads.q,
                             SplitHeads(heads.q, names_.q, sizes_.heads));
      ASYRA_ASSIGN_OR_RETURN(heads.k, Module(x, names_.k, kv_size, bias));
      ASYRA_ASSIGN_OR_RETURN(heads.k,
                             SplitHeads(heads.k, names_.k, config_.kv_heads));
      ASYRA_ASSIGN_OR_RETURN(heads.v, Module(x, names_.v, kv_size, bias));
      ASYRA_ASSIGN_OR_RETURN(heads.v,
                             SplitHeads(heads.v, names_.v, config_.kv_heads));
      return heads;
    }
    ASYRA_ASSIGN_OR_RETURN(x,
                           Module(x, names_.qkv, q_size + 2 * kv_size, bias));
    int64_t size = config_.head_size;
    if (config_.qkv == QkvWeights::kByHead) {
      ASYRA_ASSIGN_OR_RETURN(x, SplitHeads(x, names_.qkv, sizes_.heads));
      ASYRA_ASSIGN_OR_RETURN(heads.q, Part(x, "q", 0, size));
      ASYRA_ASSIGN_OR_RETURN(heads.k, Part(x, "k", size, size));
      ASYRA_ASSIGN_OR_RETURN(heads.v, Part(x, "v", 2 * size, size));
      return heads;
    }
    ASYRA_ASSIGN_OR_RETURN(heads.q, Part(x, "q", 0, q_size));
    ASYRA_ASSIGN_OR_RETURN(heads.k, Part(x, "k", q_size, kv_size));
    ASYRA_ASSIGN_OR_RETURN(heads.v, Part(x, "v", q_size + kv_size, kv_size));
    ASYRA_ASSIGN_OR_RETURN(heads.q, SplitHeads(heads.q, "q", sizes_.heads));
    ASYRA_ASSIGN_OR_RETURN(heads.k, SplitHeads(heads.k, "k", config_.kv_heads));
    ASYRA_ASSIGN_OR_RETURN(heads.v, SplitHeads(heads.v, "v", config_.kv_heads));
    return heads;
  }

  // Shared by queries and keys.
  absl::StatusOr<ValueId> Rotated(ValueId x, std::string_view norm,
                                  std::string_view name) {
    if (config_.norm_heads) {
      ASYRA_ASSIGN_OR_RETURN(x, Norm(x, norm));
    }
    if (layer_.rotary < 0) return x;
    auto [cos, sin] = tables_[layer_.rotary];
    return Add("rotary", {x, cos, sin}, name);
  }

  absl::StatusOr<ValueId> Attention(ValueId x) {
    ASYRA_ASSIGN_OR_RETURN(Qkv heads, Heads(x));
    ASYRA_ASSIGN_OR_RETURN(heads.q,
                           Rotated(heads.q, names_.q_norm, "q_rotary"));
    ASYRA_ASSIGN_OR_RETURN(heads.k,
                           Rotated(heads.k, names_.k_norm, "k_rotary"));
    double scale = layer_.scale != 0
                       ? layer_.scale
                       : 1 / std::sqrt(static_cast<double>(config_.head_size));
    AttrMap attrs = {{"causal", true}, {"scale", scale}};
    if (layer_.window > 0 && layer_.window < sizes_.seq) {
      attrs.Set("window", layer_.window);
    }
    if (config_.score_cap != 0) attrs.Set("softcap", config_.score_cap);
    ASYRA_ASSIGN_OR_RETURN(
        ValueId a, Add("attention", {heads.q, heads.k, heads.v}, "attention",
                       std::move(attrs)));
    ASYRA_ASSIGN_OR_RETURN(a, MergeHeads(a, "attention"));
    return Module(a, names_.o, sizes_.hidden, config_.o_bias);
  }

  absl::StatusOr<ValueId> FeedForward(ValueId h) {
    return layer_.experts ? Experts(h) : Dense(h);
  }

  bool IsGated() const {
    return config_.activation.find("glu") != std::string::npos;
  }

  absl::StatusOr<ValueId> Dense(ValueId h) {
    int64_t size = config_.intermediate;
    bool bias = config_.mlp_bias;
    const std::string& op = config_.activation;
    if (!IsGated()) {
      ASYRA_ASSIGN_OR_RETURN(h, Module(h, names_.up, size, bias));
      ASYRA_ASSIGN_OR_RETURN(h, Add(op, {h}, op));
      return Module(h, names_.down, sizes_.hidden, bias);
    }
    ValueId gate, up;
    if (config_.joined_gate) {
      ASYRA_ASSIGN_OR_RETURN(h, Module(h, names_.gate, 2 * size, bias));
      ASYRA_ASSIGN_OR_RETURN(gate, Part(h, "gate", 0, size));
      ASYRA_ASSIGN_OR_RETURN(up, Part(h, "up", size, size));
    } else {
      ASYRA_ASSIGN_OR_RETURN(gate, Module(h, names_.gate, size, bias));
      ASYRA_ASSIGN_OR_RETURN(up, Module(h, names_.up, size, bias));
    }
    ASYRA_ASSIGN_OR_RETURN(h, Add(op, {gate, up}, op));
    return Module(h, names_.down, sizes_.hidden, bias);
  }

  absl::StatusOr<ValueId> ExpertLinear(ValueId rows, std::string_view module,
                                       int64_t out, double occupancy) {
    std::string name = fmt::format("{}.{}", names_.experts, module);
    int64_t in = builder_.type(rows).dims.back().size;
    return Add("grouped_matmul",
               {rows, Weight(name, {config_.experts.experts, out, in})}, name,
               {{"transpose_b", true}, {"occupancy", occupancy}});
  }

  absl::StatusOr<ValueId> Experts(ValueId h) {
    const ExpertSizes& e = config_.experts;
    ASYRA_ASSIGN_OR_RETURN(
        MoeSlots slots,
        SlotsFor(sizes_.seq, e.experts, e.chosen, e.capacity_percent));
    ASYRA_ASSIGN_OR_RETURN(ValueId logits, Linear(h, names_.router, e.experts));
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<ValueId> routed,
        builder_.Add("moe_router", {logits},
                     {{"k", e.chosen}, {"normalize", e.normalize}},
                     builder_.program().value_name(logits) + ".chosen"));
    ValueId weights = routed[0], experts = routed[1];
    ASYRA_ASSIGN_OR_RETURN(ValueId rows,
                           Add("moe_dispatch", {h, experts}, "dispatch",
                               {{"num_experts", e.experts},
                                {"group_size", slots.group_size},
                                {"capacity", slots.capacity}}));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId gate, ExpertLinear(rows, names_.expert_gate, e.intermediate,
                                   slots.occupancy));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId up,
        ExpertLinear(rows, names_.expert_up, e.intermediate, slots.occupancy));
    const std::string& op = config_.activation;
    ASYRA_ASSIGN_OR_RETURN(
        rows, Add(op, {gate, up}, fmt::format("{}.{}", names_.experts, op)));
    ASYRA_ASSIGN_OR_RETURN(rows, ExpertLinear(rows, names_.expert_down,
                                              sizes_.hidden, slots.occupancy));
    return Add("moe_combine", {rows, experts, weights}, "combine",
               {{"group_size", slots.group_size}});
  }

  const DecoderConfig& config_;
  const DecoderNames& names_;
  LayerForm layer_;
  ValueId table_ = kNoValue;
  std::vector<std::pair<ValueId, ValueId>> tables_;  // of rotary: cos, sin
};

}  // namespace

absl::StatusOr<Program> BuildDecoder(const DecoderConfig& config) {
  return DecoderBuilder(config).Build();
}

}  // namespace asyra
