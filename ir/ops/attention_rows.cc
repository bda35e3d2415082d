#include <cmath>

#include "ir/ops/attention.h"
#include "ir/ops/integers.h"

namespace asyra::ops {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

absl::Status CheckMask(const Type& mask, const AttentionSizes& sizes) {
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

absl::Status CheckStarts(const Type& starts, const AttentionSizes& sizes) {
  const Shape rows = {sizes.b, sizes.s};
  if (starts.shape() == rows) return absl::OkStatus();
  return Invalid("starts have shape {} for rows {}",
                 ShapeToString(starts.shape()), ShapeToString(rows));
}

absl::Status CheckExtras(const OpCall& call, int first) {
  AttentionSizes sizes(call.operands);
  AttentionExtras extras(call.operands, first);
  for (int i = first; i < static_cast<int>(call.operands.size()); ++i) {
    const Type& type = call.operands[i];
    if (i == extras.mask) {
      ASYRA_RETURN_IF_ERROR(CheckMask(type, sizes));
    } else if (i == extras.lengths && type.size(0) != sizes.b) {
      return Invalid("{} lengths for a batch of {}", type.size(0), sizes.b);
    } else if (i == extras.sinks && type.size(0) != sizes.h) {
      return Invalid("{} sinks for {} heads", type.size(0), sizes.h);
    } else if (i == extras.starts) {
      ASYRA_RETURN_IF_ERROR(CheckStarts(type, sizes));
    } else if (i != extras.lengths && i != extras.sinks) {
      return Invalid(
          "operand {}, {}, is a second mask, lengths, sinks or starts", i,
          ToString(type, {}));
    }
  }
  if (call.attrs.Int("shards") > 0 &&
      (extras.mask >= 0 || extras.lengths >= 0 || extras.starts >= 0)) {
    return Invalid("keys in shards have a mask, lengths or starts");
  }
  int64_t documents = call.attrs.Int("documents");
  if (documents < 1 || (documents > 1 && extras.starts < 0)) {
    return Invalid("documents is {}, there are {}starts", documents,
                   extras.starts < 0 ? "no " : "");
  }
  if (call.attrs.Bool("at_end") && extras.lengths < 0) {
    return Invalid("at_end is set, but there are no lengths");
  }
  return absl::OkStatus();
}

// A shard of the keys has no mask's or lengths' part of its own, and what no
// row of a shard sees has no weights.
absl::Status CheckShards(const OpCall& call) {
  int64_t shards = call.attrs.Int("shards"), shift = call.attrs.Int("shift");
  if (shards == 0 && shift == 0) return absl::OkStatus();
  AttentionSizes sizes(call.operands);
  bool striped = call.attrs.Int("runs") != 0;
  if (shards < 2 || sizes.s % shards != 0 ||
      sizes.t % (striped ? 2 * shards : shards) != 0) {
    return Invalid("{} rows and {} keys are not {} shards", sizes.s, sizes.t,
                   shards);
  }
  if (shift < 0 || shift >= shards) {
    return Invalid("shift is {}, it must be from 0 to {}", shift, shards - 1);
  }
  if (striped &&
      (call.attrs.Int("window") > 0 || call.attrs.Int("window_after") > 0)) {
    return Invalid("rows in runs see windows of all keys, not of a shard");
  }
  if (call.attrs.Float("hidden") > kAsGoodAsHidden ||
      call.attrs.Bool("empty_is_nan")) {
    return Invalid(
        "rows may see nothing of a shard: with shards, hidden must "
        "be -inf, and empty_is_nan false");
  }
  return absl::OkStatus();
}

}  // namespace

AttentionExtras::AttentionExtras(absl::Span<const Type> operands, int first) {
  for (int i = first; i < static_cast<int>(operands.size()); ++i) {
    const Type& type = operands[i];
    bool vector = type.rank() == 1;
    int& is = vector && IsInteger(type.dtype)             ? lengths
              : vector && IsFloat(type.dtype)             ? sinks
              : type.rank() == 2 && IsInteger(type.dtype) ? starts
                                                          : mask;
    if (is < 0) is = i;
  }
}

std::vector<AttrDef> AttentionAttrs() {
  return {
      {"causal", AttrKind::kBool, "a row sees keys up to its own", false},
      {"window", AttrKind::kInt, "w > 0: row i sees keys > i - w", int64_t{0}},
      {"window_after", AttrKind::kInt, "w > 0: row i sees keys < i + w",
       int64_t{0}},
      {"offset", AttrKind::kInt,
       "the key at which row 0 is, for `causal` and windows", int64_t{0}},
      {"at_end", AttrKind::kBool,
       "the rows are the last ones of each length; `offset` is added", false},
      {"runs", AttrKind::kInt,
       "n != 0: the rows are |n| runs, one for each device, and those behind "
       "them, in the other order, another op's; n < 0: the last run comes "
       "first",
       int64_t{0}},
      {"shards", AttrKind::kInt,
       "n > 1: rows and keys are n shards, and each of the rows sees one of "
       "the keys; keys of rows in runs are in stripes",
       int64_t{0}},
      {"shift", AttrKind::kInt,
       "shard i has the keys of shard i - shift, the last following the first",
       int64_t{0}},
      {"scale", AttrKind::kFloat, "of q k^T"},
      {"softcap", AttrKind::kFloat,
       "c > 0: scores become c tanh(score / c) before the mask", 0.0},
      {"hidden", AttrKind::kFloat,
       "score of keys that causal, windows and a bool mask hide; a float mask "
       "is added to it",
       kHidden},
      {"empty_is_nan", AttrKind::kBool,
       "a row whose scores are all -inf gives NaN, as softmax does; else 0",
       false},
      {"documents", AttrKind::kInt,
       "about how many a row of tokens has, whose starts are given: what it "
       "costs follows from them",
       int64_t{1}}};
}

absl::Status CheckAttention(const OpCall& call, int first) {
  for (int i = 0; i < 3; ++i) {
    const Type& type = call.operands[i];
    if (type.rank() != 4 || type.dtype != call.operands[0].dtype) {
      return Invalid("{} is {}, it should be {} of rank 4",
                     call.def.operands[i].name, ToString(type, {}),
                     ToString(call.operands[0].dtype));
    }
  }
  ASYRA_RETURN_IF_ERROR(RequireFloat(call, 0));
  AttentionSizes sizes(call.operands);
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
  for (std::string_view name : {"window", "window_after"}) {
    if (call.attrs.Int(name) >= 0) continue;
    return Invalid("{} is {}", name, call.attrs.Int(name));
  }
  ASYRA_RETURN_IF_ERROR(CheckShards(call));
  return CheckExtras(call, first);
}

std::string RowSpec(const OpCall& call, bool positional) {
  std::string rows = positional ? "@s" : "s";
  int64_t shards = call.attrs.Int("shards");
  return shards == 0 ? rows : fmt::format("(@p={} {})", shards, rows);
}

std::string KeySpec(const OpCall& call) {
  return call.attrs.Int("shards") == 0 ? "!t" : "(p !t)";
}

std::string ExtraSpec(const OpCall& call, int operand) {
  const Type& type = call.operands[operand];
  if (type.rank() == 1) return IsInteger(type.dtype) ? "b" : "(h g)";
  if (type.rank() == 2) return "b s";
  std::string spec;
  const char* factors[] = {" b", " (h g)", " s", " !t"};
  for (int d = 0; d < 4; ++d) spec += type.size(d) == 1 ? " _" : factors[d];
  return spec;
}

std::string ExtraSpecs(const OpCall& call, int first) {
  std::string specs;
  for (int i = first; i < static_cast<int>(call.operands.size()); ++i) {
    specs += ", " + ExtraSpec(call, i);
  }
  return specs;
}

AttentionRows::AttentionRows(const RefCall& call, int first)
    : sizes_(call.operands),
      window_(call.attrs.Int("window")),
      window_after_(call.attrs.Bool("causal") ? 1
                                              : call.attrs.Int("window_after")),
      scale_(call.attrs.Float("scale")),
      softcap_(call.attrs.Float("softcap")),
      hidden_(call.attrs.Float("hidden")),
      single_(call.operand_types[0].dtype != DType::kF64),
      empty_is_nan_(call.attrs.Bool("empty_is_nan")),
      lengths_(sizes_.b, sizes_.t),
      q_(call.operands[0].ToDoubles()),
      k_(call.operands[1].ToDoubles()),
      v_(call.operands[2].ToDoubles()),
      weights_(sizes_.t),
      slopes_(sizes_.t) {
  AttentionExtras extras(call.operand_types, first);
  if (extras.lengths >= 0) lengths_ = call.operands[extras.lengths].ToInts();
  if (extras.sinks >= 0) sinks_ = call.operands[extras.sinks].ToDoubles();
  if (extras.starts >= 0) starts_ = call.operands[extras.starts].ToInts();
  for (int64_t b = 0; b < sizes_.b; ++b) {
    int64_t place = call.attrs.Int("offset");
    if (call.attrs.Bool("at_end")) {
      place += lengths_[b] - call.operand_types[0].size(1);
    }
    first_places_.push_back(place);
  }
  SetPlaces(call);
  if (extras.mask < 0) return;
  const Tensor& mask = call.operands[extras.mask];
  mask_ = mask.ToDoubles();
  mask_is_bool_ = mask.dtype() == DType::kBool;
  mask_index_.emplace(
      BroadcastIndex(mask.shape(), {sizes_.b, sizes_.h, sizes_.s, sizes_.t}));
}

void AttentionRows::SetPlaces(const RefCall& call) {
  int64_t rows = call.operand_types[0].size(1);
  int64_t keys = call.operand_types[1].size(1);
  int64_t shards = std::max<int64_t>(1, call.attrs.Int("shards"));
  for (int64_t s = 0; s < sizes_.s; ++s) {
    int64_t row = call.Start(0, 1) + s;
    rows_.push_back(PlaceOfRow(row, rows, call.attrs.Int("runs")));
    row_shards_.push_back(row / std::max<int64_t>(1, rows / shards));
  }
  for (int64_t t = 0; t < sizes_.t; ++t) {
    int64_t key = call.Start(1, 1) + t, shard = key / (keys / shards);
    key_places_.push_back(
        KeyShardAt(call.attrs, shard, keys).Place(key % (keys / shards)));
    key_shards_.push_back(shard);
  }
}

// Rounds to the precision in which devices add and compare scores.
double AttentionRows::Rounded(double score) const {
  return single_ ? static_cast<double>(static_cast<float>(score)) : score;
}

double AttentionRows::Product(int64_t b, int64_t s, int64_t h, int64_t t,
                              double* slope) const {
  const double* q = &q_[QueryRow(b, s, h) * sizes_.d];
  const double* k = &k_[KeyRow(b, t, h) * sizes_.d];
  double score = 0;
  for (int64_t d = 0; d < sizes_.d; ++d) score += q[d] * k[d];
  score *= scale_;
  *slope = scale_;
  if (softcap_ > 0) {
    double bounded = std::tanh(score / softcap_);
    score = softcap_ * bounded;
    *slope *= 1 - bounded * bounded;
  }
  return Rounded(score);
}

bool AttentionRows::Sees(int64_t b, int64_t s, int64_t t) const {
  int64_t row = first_places_[b] + rows_[s], key = key_places_[t];
  return row_shards_[s] == key_shards_[t] &&
         (window_after_ == 0 || key < row + window_after_) &&
         (window_ == 0 || key > row - window_);
}

double AttentionRows::Score(int64_t b, int64_t s, int64_t h, int64_t t) {
  slopes_[t] = 0;
  if (t >= lengths_[b]) return kHidden;
  if (!starts_.empty() && key_places_[t] < starts_[b * sizes_.s + s]) {
    return kHidden;
  }
  bool sees = Sees(b, s, t);
  double mask = 0;
  if (mask_index_.has_value()) {
    mask = mask_[(*mask_index_)(MaskElement(b, s, h, t))];
    if (mask_is_bool_) {
      sees = sees && mask != 0;
      mask = 0;
    }
  }
  double score = sees ? Product(b, s, h, t, &slopes_[t]) : hidden_;
  return Rounded(score + mask);
}

bool AttentionRows::Compute(int64_t b, int64_t s, int64_t h) {
  double largest = kHidden, sum = 0;
  for (int64_t t = 0; t < sizes_.t; ++t) {
    weights_[t] = Score(b, s, h, t);
    largest = Maximum(largest, weights_[t]);
  }
  sink_weight_ = 0;
  if (largest == kHidden && (sinks_.empty() || !empty_is_nan_)) {
    log_sum_ = empty_is_nan_ ? kNan : -kHidden;
    std::fill(weights_.begin(), weights_.end(), empty_is_nan_ ? kNan : 0);
    return empty_is_nan_;
  }
  if (!sinks_.empty()) {
    largest = Maximum(largest, sinks_[h]);
    sink_weight_ = std::exp(sinks_[h] - largest);
    sum = sink_weight_;
  }
  for (double& weight : weights_) {
    weight = std::exp(weight - largest);
    sum += weight;
  }
  for (double& weight : weights_) weight /= sum;
  sink_weight_ /= sum;
  log_sum_ = largest + std::log(sum);
  return true;
}

void AttentionRows::ComputeFrom(double log_sum, int64_t b, int64_t s,
                                int64_t h) {
  log_sum_ = log_sum;
  for (int64_t t = 0; t < sizes_.t; ++t) {
    double score = Score(b, s, h, t);
    weights_[t] = score == kHidden ? 0 : std::exp(score - log_sum);
  }
  sink_weight_ = sinks_.empty() ? 0 : std::exp(sinks_[h] - log_sum);
}

}  // namespace asyra::ops
