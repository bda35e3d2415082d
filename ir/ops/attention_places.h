// Places of attention's rows among its keys, and of its keys: what `causal` and
// windows compare.
//
// A row is at the key that its number and attributes `offset` and `runs` say.
// With `shards` = n > 1 the rows are n parts and the keys are n parts, rolled
// by `shift`: the rows of part i see keys of the sequence's part (i - shift)
// mod n alone. So each device computes with the keys that it has while the next
// ones come, and the results are merged (attention_merge). Keys of rows in runs
// are in stripes (passes/shard/stripes.h): part i of them has the runs i and 2n
// - 1 - i of 2n.
#pragma once

#include <cstdint>

#include "ir/attr.h"
#include "ir/mesh.h"
#include "ir/op_def.h"

namespace asyra::ops {

// Positions of operands: y, log_sums and dy of attention_grad, after q, k, v;
// and the first of those that may be left out, of attention and attention_grad.
inline constexpr int kGradY = 3, kGradLogSums = 4, kGradDy = 5;
inline constexpr int kFirstExtra = 3, kFirstGradExtra = 6;

// Sizes of q [B, S, H, D], k [B, T, G, D] and v [B, T, G, E].
struct AttentionSizes {
  int64_t b, s, h, d, t, kv_heads, e;
  template <typename Shaped>  // types or tensors
  explicit AttentionSizes(absl::Span<const Shaped> x)
      : b(x[0].size(0)),
        s(x[0].size(1)),
        h(x[0].size(2)),
        d(x[0].size(3)),
        t(x[1].size(1)),
        kv_heads(x[1].size(2)),
        e(x[2].size(3)) {}
};

// Returns the place of row `row` of `rows` among them, by attribute `runs`.
inline int64_t PlaceOfRow(int64_t row, int64_t rows, int64_t runs) {
  if (runs >= 0) return row;
  int64_t run = rows / -runs;
  return (-runs - 1 - row / run) * run + row % run;
}

// One of the parts of the keys, on one device: all keys where there is one.
struct KeyShard {
  int64_t shards = 1;
  int64_t part = 0;  // of the sequence
  int64_t keys = 0;  // of a part
  bool striped = false;

  // Returns the place of key `t` of it.
  int64_t Place(int64_t t) const {
    int64_t run = keys / 2;
    if (!striped) return part * keys + t;
    return t < run ? part * run + t : (2 * shards - 1 - part) * run + t - run;
  }
};
// Returns whether each row of an op sees one shard of the keys.
bool HasKeyShards(const AttrMap& attrs);

// Returns the shard that the op's attributes put where part `at` of keys of so
// many in all would be in order.
KeyShard KeyShardAt(const AttrMap& attrs, int64_t at, int64_t all_keys);

// Returns whether a device that has `keys` of them has one shard at most.
bool HasOneKeyShard(const AttrMap& attrs, int64_t keys, int64_t all_keys);

// Keys that rows on one device see, which are neighbours, as are the keys.
struct KeyPrefix {
  int64_t first_row = 0;  // the place of row 0 if key 0 were at 0
  int64_t keys = 0;       // those that can be seen: the first ones
};
// `row` is the place of row 0, which others of its run follow. Preconditions:
// no window where keys are striped.
KeyPrefix PrefixOf(const KeyShard& shard, int64_t row, bool causal);

// Makes attributes of an op on a mesh those of a call of its own, whose rows
// are where VisiblePairs takes a device's to be: as one run behind `offset`.
// `q` is distributed; nothing changes where no axis shards its rows.
void PlaceLocalRows(const Type& q, const Mesh& mesh, AttrMap* attrs);
// Pairs of query and key rows that see each other, over all heads.
double VisiblePairs(const OpCall& local);

// Returns whether a row on some device sees a key where the shards of the keys,
// of which `local` has one, are rolled by `shift`.
bool SeesShard(const OpCall& local, int64_t shift);

}  // namespace asyra::ops
