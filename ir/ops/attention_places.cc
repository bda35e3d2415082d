#include "ir/ops/attention_places.h"

#include <algorithm>
#include <limits>

namespace asyra::ops {
namespace {

// Places of rows among the keys, [begin, end), of which a device's are the
// mean.
struct RowRange {
  int64_t begin = 0, end = 0;
};

// Fewer rows than keys are taken to be the last ones: they see the most, and
// where rows are sharded the device that has them is the one all others wait
// for. Of runs devices have one each, and as many rows of another op, with
// which all see as much: rows are taken to be mean ones.
RowRange RowsOf(const OpCall& local) {
  AttentionSizes sizes(local.operands);
  int64_t runs = local.attrs.Int("runs");
  if (runs == 0) {
    int64_t rows = std::min(sizes.s, sizes.t);
    return {sizes.t - rows, sizes.t};
  }
  int64_t first = local.attrs.Int("offset"), behind = sizes.t - first;
  int64_t rows =
      std::min(std::abs(runs) * sizes.s, runs > 0 ? behind / 2 : behind);
  return {first, first + std::max<int64_t>(rows, 1)};
}

// The windows of a row among neighbouring keys.
struct Sight {
  double behind, ahead;  // of windows: as many keys, the row's own being one

  explicit Sight(const AttrMap& attrs)
      : behind(Limit(attrs.Int("window"))),
        ahead(attrs.Bool("causal") ? 1 : Limit(attrs.Int("window_after"))) {}

  static double Limit(int64_t window) {
    return window > 0 ? static_cast<double>(window)
                      : std::numeric_limits<double>::infinity();
  }

  // Returns the pairs of the rows at [begin, end) and the keys at [0, keys).
  double Pairs(double begin, double end, double keys) const {
    auto up_to = [&](double first, double beside) {
      return SumUpTo(end + beside, keys) - SumUpTo(first + beside, keys);
    };
    double before =
        ahead < kNoLimit ? up_to(begin, ahead) : (end - begin) * keys;
    return before - (behind < kNoLimit ? up_to(begin, 1 - behind) : 0);
  }

 private:
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  // Returns the sum of min(p, limit) over the places p in [0, end).
  static double SumUpTo(double end, double limit) {
    double below = std::clamp(end, 0.0, limit + 1);
    return below * (below - 1) / 2 + std::max(end - below, 0.0) * limit;
  }
};

// Pairs of one head of a device whose rows see one shard of the keys: those of
// the device with most of them, or of rows in runs the mean.
double PairsOfShard(const OpCall& local, int64_t s, int64_t t) {
  const AttrMap& attrs = local.attrs;
  const Sight sight(attrs);
  int64_t shards = attrs.Int("shards"), runs = attrs.Int("runs");
  double most = 0, sum = 0;
  if (s == 0 || t == 0) return 0;
  for (int64_t at = 0; at < shards; ++at) {
    KeyShard shard = KeyShardAt(attrs, at, shards * t);
    auto pairs = [&](int64_t row, int64_t rows, int64_t keys, int64_t first) {
      auto begin = static_cast<double>(row - first);
      return sight.Pairs(begin, begin + static_cast<double>(rows),
                         static_cast<double>(keys));
    };
    // Windows let some of those that share a part of the rows see more.
    for (int64_t row = at * t; runs == 0 && row < (at + 1) * t; row += s) {
      most = std::max(most, pairs(row, s, t, shard.Place(0)));
    }
    if (runs == 0) continue;
    int64_t run = t / 2, row = (runs > 0 ? at : 2 * shards - 1 - at) * run;
    sum += pairs(row, run, run, shard.Place(0)) +
           pairs(row, run, run, shard.Place(run));
  }
  if (runs == 0) return most;
  auto of_run = static_cast<double>(s) / (static_cast<double>(t) / 2);
  return sum / static_cast<double>(shards) * of_run;
}

}  // namespace

bool HasKeyShards(const AttrMap& attrs) {
  return attrs.Find("shards") != nullptr && attrs.Int("shards") > 0;
}

KeyShard KeyShardAt(const AttrMap& attrs, int64_t at, int64_t all_keys) {
  KeyShard shard;
  shard.shards = std::max<int64_t>(1, attrs.Int("shards"));
  shard.keys = all_keys / shard.shards;
  shard.part = (at + shard.shards - attrs.Int("shift")) % shard.shards;
  shard.striped = attrs.Int("shards") > 0 && attrs.Int("runs") != 0;
  return shard;
}

bool HasOneKeyShard(const AttrMap& attrs, int64_t keys, int64_t all_keys) {
  return keys * std::max<int64_t>(1, attrs.Int("shards")) <= all_keys;
}

KeyPrefix PrefixOf(const KeyShard& shard, int64_t row, bool causal) {
  if (!shard.striped) return {row - shard.Place(0), shard.keys};
  if (!causal) return {0, shard.keys};
  int64_t run = shard.keys / 2, stripe = row / run;
  int64_t first = shard.part, second = 2 * shard.shards - 1 - shard.part;
  if (stripe == first) return {row - shard.Place(0), shard.keys};
  if (stripe == second) return {row - shard.Place(run) + run, shard.keys};
  // Behind all keys that it sees.
  int64_t keys = (stripe > first ? run : 0) + (stripe > second ? run : 0);
  return {keys, keys};
}

void PlaceLocalRows(const Type& q, const Mesh& mesh, AttrMap* attrs) {
  if (q.dims[1].axes.empty()) return;
  int64_t others = q.size(1) - q.Local(mesh).size(1);
  bool last = attrs->Int("runs") == 0;
  attrs->Set("offset", attrs->Int("offset") + (last ? others : others / 2));
  attrs->Set("runs", int64_t{-1});
}

// Lengths are taken to be full, documents to be of equal lengths.
double VisiblePairs(const OpCall& local) {
  AttentionSizes sizes(local.operands);
  auto heads = static_cast<double>(sizes.b * sizes.h);
  if (local.attrs.Int("shards") > 0) {
    return heads * PairsOfShard(local, sizes.s, sizes.t);
  }
  auto s = static_cast<double>(sizes.s), t = static_cast<double>(sizes.t);
  Sight sight(local.attrs);
  RowRange range = RowsOf(local);
  auto begin = static_cast<double>(range.begin),
       end = static_cast<double>(range.end);
  int64_t documents = local.attrs.Int("documents");
  if (documents > 1 && local.attrs.Bool("causal")) {
    double length = std::max(1.0, t / static_cast<double>(documents));
    return heads * s * sight.Pairs(0, length, length) / length;
  }
  double seen = sight.Pairs(begin, end, t);
  double pairs = local.attrs.Int("runs") == 0
                     ? seen + std::max(s - t, 0.0) * std::min(sight.behind, t)
                     : seen * s / (end - begin);
  return pairs * heads;
}

bool SeesShard(const OpCall& local, int64_t shift) {
  AttrMap attrs = local.attrs;
  attrs.Set("shift", shift);
  return VisiblePairs(OpCall{local.def, attrs, local.operands, {}}) > 0;
}

}  // namespace asyra::ops
