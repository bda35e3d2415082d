// The common form of the many spellings of attention.
#pragma once

#include <optional>
#include <vector>

#include "frontends/onnx/node.h"

namespace asyra::onnx_import::ops {

// Attention of queries at positions start, start + 1, ... to keys at 0, 1, ...
struct AttentionForm {
  Value q, k, v;  // [B, S, H, D], [B, T, G, D], [B, T, G, E]
  double scale = 0;
  double softcap = 0;  // 0: none

  // The position p of the first query; or, for each sequence, i64[B].
  int64_t start = 0;
  std::optional<Value> starts;
  // A query at p sees keys up to p, from p - left on, up to p + right.
  bool causal = false;
  std::optional<int64_t> left, right;
  // All queries of a sequence see keys below this length, i64[B].
  std::optional<Value> lengths;

  // Masks: true for what is seen, or numbers to add to the scores. They have
  // up to four dimensions and broadcast to [B, H, S, T].
  std::vector<Value> masks;
  // A key of this score and value 0 for each head, [H].
  std::optional<Value> sinks;
};

// [B, S, H, E]. Conditions without an attribute in the IR's op become a mask;
// masks that change nothing are left out.
absl::StatusOr<Value> AddAttention(Node& node, AttentionForm form);

// [B, S, H * D] as [B, S, H, D]. `what` names the value in errors.
absl::StatusOr<Value> SplitHeads(Node& node, const Value& value, int64_t heads,
                                 std::string_view what);
// [B, S, H, D] as [B, S, H * D].
absl::StatusOr<Value> JoinHeads(Node& node, const Value& value);
// [B, H, S, D] as [B, S, H, D], and back.
absl::StatusOr<Value> SwapHeads(Node& node, const Value& value);

// x [B, S, H, D] turned by angles whose cosine and sine are in rows of tables
// [N, R / 2]: those at `positions`, [S] or [B, S]; without positions, the
// tables are [S, R / 2] or [B, S, R / 2] themselves.
absl::StatusOr<Value> AddRotary(Node& node, const Value& x, const Value& cos,
                                const Value& sin,
                                const std::optional<Value>& positions,
                                bool interleaved);

// Rows of value [B, S, ...] at index [B, T], which is taken to the nearest one
// in [0, S).
absl::StatusOr<Value> RowsAt(Node& node, const Value& value,
                             const Value& index);

}  // namespace asyra::onnx_import::ops
