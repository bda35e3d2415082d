// Parts of which decoders are built: sizes, weights, projections and heads.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/builder.h"

namespace asyra {

// The sizes of a decoder that every architecture has.
struct DecoderSizes {
  int64_t layers;
  int64_t hidden;
  int64_t heads;
  int64_t vocabulary;
  int64_t batch;
  int64_t seq;
  DType dtype;
  // Tokens at the end whose logits are computed, 1 to prefill a cache; 0: all.
  int64_t logits = 0;
};

// A size that can be set by name (`--dim layers=4`).
struct SizeField {
  std::string_view name;
  int64_t* size;
};
std::vector<SizeField> SizeFields(DecoderSizes* sizes);
// The most layers: each is ops of its own, and these compile in minutes.
inline constexpr int64_t kMostLayers = 4096;
// Sets them. Errors: a name that no field has, with those that there are and
// what `others` says of the rest; a size below 1, or 0 where it means
// something; too many layers.
absl::Status SetSizes(const std::vector<SizeField>& fields,
                      const std::map<std::string, int64_t>& sizes,
                      std::string_view others = "");

class DecoderParts {
 public:
  DecoderParts(std::string_view name, const DecoderSizes& sizes)
      : sizes_(sizes) {
    builder_.mutable_program().name = name;
  }

 protected:
  // The prefix of value and weight names from here on: "layer3.".
  void EnterLayer(std::string prefix) { prefix_ = std::move(prefix); }
  void LeaveLayers() { prefix_.clear(); }

  // "PREFIXname.weight".
  ValueId Weight(std::string_view name, const Shape& shape);
  // "PREFIXname".
  ValueId WeightCalled(std::string_view name, const Shape& shape);
  ValueId Ids();
  absl::StatusOr<ValueId> Add(std::string_view op,
                              absl::Span<const ValueId> operands,
                              std::string_view name, AttrMap attrs = {});
  // x W^T with W [out, x's last dimension], as PyTorch stores it.
  absl::StatusOr<ValueId> Linear(ValueId x, std::string_view name, int64_t out);
  absl::StatusOr<ValueId> RmsNorm(ValueId x, std::string_view name, double eps);
  // [batch, seq, heads, size / heads] and back.
  absl::StatusOr<ValueId> SplitHeads(ValueId x, std::string_view name,
                                     int64_t heads);
  absl::StatusOr<ValueId> MergeHeads(ValueId x, std::string_view name);

  // The tokens of x [batch, seq, ..] whose logits are computed.
  // Error: more than there are.
  absl::StatusOr<ValueId> LastTokens(ValueId x);

  const DecoderSizes& sizes_;
  Builder builder_;

 private:
  std::string prefix_;
};

}  // namespace asyra
