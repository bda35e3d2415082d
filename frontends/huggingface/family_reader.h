// The fields of a config.json as the description of a decoder: what families
// have in common, each of which reads what is its own (families.cc).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "frontends/huggingface/config_fields.h"
#include "frontends/huggingface/families.h"
#include "frontends/huggingface/rope.h"

namespace asyra {

// Types of layers.
inline constexpr std::string_view kSlidingLayer = "sliding_attention";
inline constexpr std::string_view kFullLayer = "full_attention";

// Fills `model`. Errors go to `fields`. A field that is absent has the value
// that transformers gives it.
class FamilyReader {
 public:
  using Sizes = std::map<std::string, int64_t>;

  // `given_sizes` override those of the file (ReadFamily); both are kept.
  FamilyReader(ConfigFields& given_fields, const Sizes& given_sizes)
      : fields(given_fields), decoder(model.decoder), sizes_(given_sizes) {}
  FamilyReader(const FamilyReader&) = delete;  // it refers to its model

  // Sizes by the names of most families. `head_size` is that of files without
  // head_dim; 0: equal parts of the width.
  void Widths(int64_t head_size = 0);
  void CountLayers(std::string_view field);
  // Returns the size of equal heads of hidden_size.
  int64_t EvenHeads();
  // Returns the count if it is no larger.
  int64_t Limited(std::string_view field, int64_t count, int64_t most);
  void RmsEps(double fallback);
  void Activation(std::string_view field, std::string_view fallback,
                  bool gated);
  void Tied(bool fallback);
  // Names of llama's modules, which most families have.
  void LlamaNames();

  // Layers by their types: those that the file lists, or by `is_sliding` of
  // each.
  void Layers(int64_t window, const std::function<bool(int64_t)>& is_sliding);
  // The window of sliding layers; 0: none, which null says.
  int64_t Window(int64_t fallback = 0);
  // Qwen's: only where it is asked for.
  int64_t WindowIfUsed();
  // One scale of scores for all layers.
  void ScoreScale(double scale);

  RopeSizes Ropes(double theta) const;
  int64_t Seq() const;

  // Refuses a switch that is not as it is by default.
  void Refuse(std::string_view name, bool unless, std::string_view why);

  ConfigFields& fields;
  FamilyModel model;
  DecoderConfig& decoder;  // of it
  int64_t layers = 0, positions = 2048;

 private:
  const Sizes& sizes_;
};

// Returns a size that may be given.
int64_t SizeOr(const FamilyReader::Sizes& sizes, std::string_view name,
               int64_t fallback);

}  // namespace asyra
