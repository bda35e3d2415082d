#include "models/gpt.h"

#include "fmt/format.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class GptBuilder : DecoderParts {
 public:
  explicit GptBuilder(const GptConfig& config)
      : DecoderParts("gpt", config.sizes), config_(config) {}

  absl::StatusOr<Program> Build() {
    if (sizes_.seq > config_.positions) {
      return Invalid("seq is {}, the model has {} positions", sizes_.seq,
                     config_.positions);
    }
    ValueId ids = Ids();
    ValueId table = Weight("embed_tokens", {sizes_.vocabulary, sizes_.hidden});
    ASYRA_ASSIGN_OR_RETURN(ValueId x,
                           Add("embedding", {table, ids}, "embedding"));
    ASYRA_ASSIGN_OR_RETURN(ValueId positions, Positions());
    ASYRA_ASSIGN_OR_RETURN(x, Add("add", {x, positions}, "embedded"));
    for (int64_t i = 0; i < sizes_.layers; ++i) {
      EnterLayer(i);
      ASYRA_ASSIGN_OR_RETURN(x, Attention(x));
      ASYRA_ASSIGN_OR_RETURN(x, FeedForward(x));
    }
    LeaveLayers();
    ASYRA_ASSIGN_OR_RETURN(x, LastTokens(x));
    ASYRA_ASSIGN_OR_RETURN(x, LayerNorm(x, "norm"));
    ASYRA_ASSIGN_OR_RETURN(
        x, Add("matmul", {x, table}, "logits", {{"transpose_b", true}}));
    builder_.Output(x);
    return std::move(builder_).Finish();
  }

 private:
  absl::StatusOr<ValueId> Positions() {
    ASYRA_ASSIGN_OR_RETURN(ValueId ids, Add("iota", {}, "position_ids",
                                            {{"shape", Ints{1, sizes_.seq}},
                                             {"dim", int64_t{1}},
                                             {"dtype", DType::kI64}}));
    ValueId table =
        Weight("embed_positions", {config_.positions, sizes_.hidden});
    return Add("embedding", {table, ids}, "positions");
  }

  absl::StatusOr<ValueId> LayerNorm(ValueId x, std::string_view name) {
    Shape shape = {sizes_.hidden};
    return Add(
        "layer_norm",
        {x, Weight(name, shape), Weight(fmt::format("{}.bias", name), shape)},
        name, {{"eps", config_.eps}});
  }

  // x W + b.
  absl::StatusOr<ValueId> Conv1D(ValueId x, std::string_view name,
                                 int64_t out) {
    int64_t in = builder_.type(x).dims.back().size;
    ASYRA_ASSIGN_OR_RETURN(x, Add("matmul", {x, Weight(name, {in, out})},
                                  fmt::format("{}.matmul", name)));
    return Add("add", {x, Weight(fmt::format("{}.bias", name), {out})}, name);
  }

  absl::StatusOr<ValueId> Heads(ValueId x, std::string_view name) {
    ASYRA_ASSIGN_OR_RETURN(x, Conv1D(x, name, sizes_.hidden));
    return SplitHeads(x, name, sizes_.heads);
  }

  absl::StatusOr<ValueId> Attention(ValueId x) {
    ASYRA_ASSIGN_OR_RETURN(ValueId h, LayerNorm(x, "attention_norm"));
    ASYRA_ASSIGN_OR_RETURN(ValueId q, Heads(h, "q_proj"));
    ASYRA_ASSIGN_OR_RETURN(ValueId k, Heads(h, "k_proj"));
    ASYRA_ASSIGN_OR_RETURN(ValueId v, Heads(h, "v_proj"));
    ASYRA_ASSIGN_OR_RETURN(ValueId a, CausalAttention(q, k, v));
    ASYRA_ASSIGN_OR_RETURN(a, MergeHeads(a, "attention"));
    ASYRA_ASSIGN_OR_RETURN(a, Conv1D(a, "o_proj", sizes_.hidden));
    return Add("add", {a, x}, "attention.residual");
  }

  absl::StatusOr<ValueId> FeedForward(ValueId x) {
    ASYRA_ASSIGN_OR_RETURN(ValueId h, LayerNorm(x, "mlp_norm"));
    ASYRA_ASSIGN_OR_RETURN(h, Conv1D(h, "up_proj", 4 * sizes_.hidden));
    ASYRA_ASSIGN_OR_RETURN(h, Add("gelu_tanh", {h}, "gelu"));
    ASYRA_ASSIGN_OR_RETURN(h, Conv1D(h, "down_proj", sizes_.hidden));
    return Add("add", {x, h}, "mlp.residual");
  }

  const GptConfig& config_;
};

}  // namespace

absl::StatusOr<Program> BuildGpt(const GptConfig& config) {
  return GptBuilder(config).Build();
}

}  // namespace asyra
