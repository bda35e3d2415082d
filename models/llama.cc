#include "models/llama.h"

#include <cmath>

#include "ir/builder.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class LlamaBuilder {
 public:
  explicit LlamaBuilder(const LlamaConfig& config)
      : config_(config), head_size_(config.hidden / config.heads) {}

  absl::StatusOr<Program> Build() {
    const LlamaConfig& c = config_;
    builder_.mutable_program().name = "llama";
    ValueId ids =
        builder_.Input("input_ids", Type(DType::kI64, {c.batch, c.seq}));
    ValueId table = Weight("embed_tokens", {c.vocabulary, c.hidden});
    cos_ = Weight("rotary.cos", {c.seq, head_size_ / 2});
    sin_ = Weight("rotary.sin", {c.seq, head_size_ / 2});
    ASYRA_ASSIGN_OR_RETURN(
        ValueId x, builder_.AddOne("embedding", {table, ids}, {}, "embedding"));
    for (int64_t i = 0; i < c.layers; ++i) {
      prefix_ = fmt::format("layer{}.", i);
      ASYRA_ASSIGN_OR_RETURN(x, Attention(x));
      ASYRA_ASSIGN_OR_RETURN(x, Mlp(x));
    }
    prefix_ = "";
    ASYRA_ASSIGN_OR_RETURN(x, Norm(x, "norm"));
    ASYRA_ASSIGN_OR_RETURN(x, Linear(x, "logits", c.hidden, c.vocabulary));
    builder_.Output(x);
    return std::move(builder_).Finish();
  }

 private:
  ValueId Weight(std::string_view name, const Shape& shape) {
    return builder_.Input(fmt::format("{}{}.weight", prefix_, name),
                          Type(config_.dtype, shape), InputRole::kWeight);
  }

  absl::StatusOr<ValueId> Add(std::string_view op,
                              absl::Span<const ValueId> operands,
                              std::string_view name, AttrMap attrs = {}) {
    return builder_.AddOne(op, operands, std::move(attrs),
                           fmt::format("{}{}", prefix_, name));
  }

  absl::StatusOr<ValueId> Norm(ValueId x, std::string_view name) {
    return Add("rms_norm", {x, Weight(name, {config_.hidden})}, name,
               {{"eps", config_.eps}});
  }

  absl::StatusOr<ValueId> Linear(ValueId x, std::string_view name, int64_t in,
                                 int64_t out) {
    return Add("matmul", {x, Weight(name, {in, out})}, name);
  }

  // [batch, seq, heads, head size] of a projection.
  absl::StatusOr<ValueId> Heads(ValueId x, std::string_view name,
                                int64_t heads) {
    ASYRA_ASSIGN_OR_RETURN(x,
                           Linear(x, name, config_.hidden, heads * head_size_));
    return Add(
        "reshape", {x}, fmt::format("{}.heads", name),
        {{"shape", Ints{config_.batch, config_.seq, heads, head_size_}}});
  }

  absl::StatusOr<ValueId> Attention(ValueId x) {
    const LlamaConfig& c = config_;
    ASYRA_ASSIGN_OR_RETURN(ValueId h, Norm(x, "input_norm"));
    ASYRA_ASSIGN_OR_RETURN(ValueId q, Heads(h, "q_proj", c.heads));
    ASYRA_ASSIGN_OR_RETURN(ValueId k, Heads(h, "k_proj", c.kv_heads));
    ASYRA_ASSIGN_OR_RETURN(ValueId v, Heads(h, "v_proj", c.kv_heads));
    ASYRA_ASSIGN_OR_RETURN(q, Add("rotary", {q, cos_, sin_}, "q_rotary"));
    ASYRA_ASSIGN_OR_RETURN(k, Add("rotary", {k, cos_, sin_}, "k_rotary"));
    ASYRA_ASSIGN_OR_RETURN(
        ValueId a,
        Add("attention", {q, k, v}, "attention",
            {{"causal", true},
             {"scale", 1 / std::sqrt(static_cast<double>(head_size_))}}));
    ASYRA_ASSIGN_OR_RETURN(a, Add("reshape", {a}, "attention.merged",
                                  {{"shape", Ints{c.batch, c.seq, c.hidden}}}));
    ASYRA_ASSIGN_OR_RETURN(a, Linear(a, "o_proj", c.hidden, c.hidden));
    return Add("add", {x, a}, "attention.residual");
  }

  absl::StatusOr<ValueId> Mlp(ValueId x) {
    const LlamaConfig& c = config_;
    ASYRA_ASSIGN_OR_RETURN(ValueId h, Norm(x, "post_attention_norm"));
    ASYRA_ASSIGN_OR_RETURN(ValueId gate,
                           Linear(h, "gate_proj", c.hidden, c.intermediate));
    ASYRA_ASSIGN_OR_RETURN(ValueId up,
                           Linear(h, "up_proj", c.hidden, c.intermediate));
    ASYRA_ASSIGN_OR_RETURN(h, Add("swiglu", {gate, up}, "swiglu"));
    ASYRA_ASSIGN_OR_RETURN(h, Linear(h, "down_proj", c.intermediate, c.hidden));
    return Add("add", {x, h}, "mlp.residual");
  }

  const LlamaConfig& config_;
  int64_t head_size_;
  Builder builder_;
  std::string prefix_;
  ValueId cos_ = kNoValue;
  ValueId sin_ = kNoValue;
};

}  // namespace

absl::StatusOr<Program> BuildLlama(const LlamaConfig& config) {
  return LlamaBuilder(config).Build();
}

}  // namespace asyra
