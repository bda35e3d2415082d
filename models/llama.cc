#include "models/llama.h"

#include "fmt/format.h"
#include "ir/ops/moe_slots.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class LlamaBuilder : DecoderParts {
 public:
  explicit LlamaBuilder(const LlamaConfig& config)
      : DecoderParts(config.experts.experts > 0 ? "qwen3_moe" : "llama",
                     config.sizes),
        config_(config) {}

  absl::StatusOr<Program> Build() {
    ValueId ids = Ids();
    ValueId table = Weight("embed_tokens", {sizes_.vocabulary, sizes_.hidden});
    cos_ = Weight("rotary.cos", {sizes_.seq, config_.head_size / 2});
    sin_ = Weight("rotary.sin", {sizes_.seq, config_.head_size / 2});
    ASYRA_ASSIGN_OR_RETURN(ValueId x,
                           Add("embedding", {table, ids}, "embedding"));
    for (int64_t i = 0; i < sizes_.layers; ++i) {
      EnterLayer(i);
      ASYRA_ASSIGN_OR_RETURN(x, Attention(x));
      ASYRA_ASSIGN_OR_RETURN(x, FeedForward(x));
    }
    LeaveLayers();
    ASYRA_ASSIGN_OR_RETURN(x, LastTokens(x));
    ASYRA_ASSIGN_OR_RETURN(x, RmsNorm(x, "norm", config_.eps));
    ASYRA_ASSIGN_OR_RETURN(x, Linear(x, "logits", sizes_.vocabulary));
    builder_.Output(x);
    return std::move(builder_).Finish();
  }

 private:
  absl::StatusOr<ValueId> Heads(ValueId x, std::string_view name,
                                int64_t heads) {
    ASYRA_ASSIGN_OR_RETURN(x, Linear(x, name, heads * config_.head_size));
    return SplitHeads(x, name, heads);
  }

  // Shared by queries and keys.
  absl::StatusOr<ValueId> Rotated(ValueId x, std::string_view name) {
    if (config_.norm_heads) {
      ASYRA_ASSIGN_OR_RETURN(
          x, RmsNorm(x, fmt::format("{}_norm", name), config_.eps));
    }
    return Add("rotary", {x, cos_, sin_}, fmt::format("{}_rotary", name));
  }

  absl::StatusOr<ValueId> Attention(ValueId x) {
    ASYRA_ASSIGN_OR_RETURN(ValueId h, RmsNorm(x, "input_norm", config_.eps));
    ASYRA_ASSIGN_OR_RETURN(ValueId q, Heads(h, "q_proj", sizes_.heads));
    ASYRA_ASSIGN_OR_RETURN(ValueId k, Heads(h, "k_proj", config_.kv_heads));
    ASYRA_ASSIGN_OR_RETURN(ValueId v, Heads(h, "v_proj", config_.kv_heads));
    ASYRA_ASSIGN_OR_RETURN(q, Rotated(q, "q"));
    ASYRA_ASSIGN_OR_RETURN(k, Rotated(k, "k"));
    ASYRA_ASSIGN_OR_RETURN(ValueId a, CausalAttention(q, k, v));
    ASYRA_ASSIGN_OR_RETURN(a, MergeHeads(a, "attention"));
    ASYRA_ASSIGN_OR_RETURN(a, Linear(a, "o_proj", sizes_.hidden));
    return Add("add", {x, a}, "attention.residual");
  }

  absl::StatusOr<ValueId> FeedForward(ValueId x) {
    ASYRA_ASSIGN_OR_RETURN(ValueId h,
                           RmsNorm(x, "post_attention_norm", config_.eps));
    absl::StatusOr<ValueId> y =
        config_.experts.experts > 0 ? Experts(h) : Dense(h);
    if (!y.ok()) return y.status();
    return Add("add", {x, *y}, "mlp.residual");
  }

  absl::StatusOr<ValueId> Dense(ValueId h) {
    ASYRA_ASSIGN_OR_RETURN(ValueId gate,
                           Linear(h, "gate_proj", config_.intermediate));
    ASYRA_ASSIGN_OR_RETURN(ValueId up,
                           Linear(h, "up_proj", config_.intermediate));
    ASYRA_ASSIGN_OR_RETURN(h, Add("swiglu", {gate, up}, "swiglu"));
    return Linear(h, "down_proj", sizes_.hidden);
  }

  absl::StatusOr<ValueId> ExpertLinear(ValueId rows, std::string_view name,
                                       int64_t out, double occupancy) {
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
    ASYRA_ASSIGN_OR_RETURN(ValueId logits, Linear(h, "router", e.experts));
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<ValueId> routed,
        builder_.Add("moe_router", {logits},
                     {{"k", e.chosen}, {"normalize", true}},
                     builder_.program().value_name(logits) + ".chosen"));
    ValueId weights = routed[0], experts = routed[1];
    ASYRA_ASSIGN_OR_RETURN(ValueId rows,
                           Add("moe_dispatch", {h, experts}, "dispatch",
                               {{"num_experts", e.experts},
                                {"group_size", slots.group_size},
                                {"capacity", slots.capacity}}));
    ASYRA_ASSIGN_OR_RETURN(ValueId gate,
                           ExpertLinear(rows, "experts.gate_proj",
                                        config_.intermediate, slots.occupancy));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId up, ExpertLinear(rows, "experts.up_proj", config_.intermediate,
                                 slots.occupancy));
    ASYRA_ASSIGN_OR_RETURN(rows, Add("swiglu", {gate, up}, "experts.swiglu"));
    ASYRA_ASSIGN_OR_RETURN(rows, ExpertLinear(rows, "experts.down_proj",
                                              sizes_.hidden, slots.occupancy));
    return Add("moe_combine", {rows, experts, weights}, "combine",
               {{"group_size", slots.group_size}});
  }

  const LlamaConfig& config_;
  ValueId cos_ = kNoValue;
  ValueId sin_ = kNoValue;
};

}  // namespace

LlamaConfig Llama3Config8B() { return {}; }

LlamaConfig Llama3Config70B() {
  LlamaConfig config;
  config.sizes.layers = 80;
  config.sizes.hidden = 8192;
  config.sizes.heads = 64;
  config.intermediate = 28672;
  return config;
}

LlamaConfig Qwen3Config30B() {
  return {.sizes = {.layers = 48,
                    .hidden = 2048,
                    .heads = 32,
                    .vocabulary = 151936,
                    .batch = 2,
                    .seq = 8192,
                    .dtype = DType::kBF16},
          .kv_heads = 4,
          .head_size = 128,
          .intermediate = 768,
          .experts = {.experts = 128, .chosen = 8, .capacity_percent = 125},
          .norm_heads = true,
          .eps = 1e-6,
          .rotary_base = 1e6};
}

absl::StatusOr<Program> BuildLlama(const LlamaConfig& config) {
  return LlamaBuilder(config).Build();
}

}  // namespace asyra
