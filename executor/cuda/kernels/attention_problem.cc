#include "executor/cuda/kernels/attention_problem.h"

#include <algorithm>
#include <cmath>

#include "executor/cuda/device/element_of.h"
#include "ir/ops/attention.h"

namespace asyra::cuda {
namespace {

std::vector<Type> LocalTypes(const KernelUse& use) {
  std::vector<Type> types;
  for (int i = 0; i < use.num_operands(); ++i) types.push_back(use.operand(i));
  return types;
}

void Describe(const Type& mask, AttentionProblem* problem) {
  problem->mask = ElementOf(mask.dtype);
  int64_t stride = 1;
  for (int dim = 3; dim >= 0; --dim) {
    problem->mask_strides[dim] = mask.size(dim) == 1 ? 0 : stride;
    stride *= mask.size(dim);
  }
}

}  // namespace

AttentionOperands::AttentionOperands(const KernelUse& use, int first) {
  ops::AttentionExtras extras(LocalTypes(use), first);
  mask = extras.mask;
  lengths = extras.lengths;
  sinks = extras.sinks;
  starts = extras.starts;
}

AttentionData AttentionOperands::DataOf(const KernelArgs& args) const {
  auto at = [&](int i) { return i < 0 ? nullptr : args.operands[i]; };
  return {.q = at(0),
          .k = at(1),
          .v = at(2),
          .mask = at(mask),
          .lengths = at(lengths),
          .sinks = at(sinks),
          .starts = at(starts)};
}

AttentionProblem ProblemOf(const KernelUse& use, int first) {
  std::vector<Type> types = LocalTypes(use);
  ops::AttentionSizes sizes{absl::Span<const Type>(types)};
  AttentionOperands operands(use, first);
  const AttrMap& attrs = use.attrs();
  const Type& q = use.global_operands()[0];
  AttentionProblem problem = {
      .element = ElementOf(types[0].dtype),
      .b = sizes.b,
      .s = sizes.s,
      .h = sizes.h,
      .d = sizes.d,
      .t = sizes.t,
      .g = sizes.kv_heads,
      .e = sizes.e,
      .scale = attrs.Float("scale"),
      .softcap = attrs.Float("softcap"),
      .hidden = attrs.Float("hidden"),
      .empty_is_nan = attrs.Bool("empty_is_nan"),
      .first_row =
          attrs.Int("offset") +
          ops::PlaceOfRow(use.Start(q, 1), q.size(1), attrs.Int("runs")),
      .window = attrs.Int("window"),
      .window_after = attrs.Bool("causal") ? 1 : attrs.Int("window_after"),
      .at_end = attrs.Bool("at_end")};
  const Type& k = use.global_operands()[1];
  problem.keys = problem.t;
  if (attrs.Int("shards") > 0 && problem.t > 0) {
    ops::KeyShard shard =
        ops::KeyShardAt(attrs, use.Start(k, 1) / problem.t, k.size(1));
    ops::KeyPrefix prefix =
        ops::PrefixOf(shard, problem.first_row, attrs.Bool("causal"));
    problem.first_row = prefix.first_row;
    problem.keys = prefix.keys;
  }
  if (problem.at_end) problem.first_row -= q.size(1);
  if (operands.mask >= 0) Describe(types[operands.mask], &problem);
  if (operands.lengths >= 0) {
    problem.lengths = ElementOf(types[operands.lengths].dtype);
  }
  if (operands.sinks >= 0) {
    problem.sinks = ElementOf(types[operands.sinks].dtype);
  }
  if (operands.starts >= 0) {
    problem.starts = ElementOf(types[operands.starts].dtype);
  }
  return problem;
}

bool HasOneRun(const KernelUse& use) {
  int64_t rows = use.global_operands()[0].size(1);
  return use.operand(0).size(1) * -use.attrs().Int("runs") <= rows &&
         ops::HasOneKeyShard(use.attrs(), use.operand(1).size(1),
                             use.global_operands()[1].size(1));
}

namespace {

// Returns the band where row 0 is at key `first`, of keys from 0 on.
AttentionBand Align(const AttentionProblem& p, int64_t first, int64_t keys) {
  AttentionBand band = {.keys = keys};
  bool from_top = first == 0;
  band.bottom_right = !from_top && first == keys - p.s;
  int64_t shift = band.bottom_right ? 0 : first;
  if (p.window > 0) band.left = p.window - shift;
  if (p.window_after > 0) band.right = p.window_after - 1 + shift;
  return band;
}

std::optional<AttentionBand> BandWithLengths(const AttentionProblem& p) {
  if (p.at_end) {
    // The last row is an entry's last key; rows before it may be before the
    // first key, where an entry has few.
    if (p.first_row != -p.s || p.s != 1) return std::nullopt;
    AttentionBand band = {.keys = p.t, .bottom_right = p.window > 0};
    if (p.window > 0) band.left = p.window;
    return band;
  }
  // A window may be behind an entry's last key.
  if (p.window > 0 || p.first_row < 0) return std::nullopt;
  AttentionBand band = {.keys = p.t};
  if (p.window_after > 0) band.right = p.window_after - 1 + p.first_row;
  return band;
}

}  // namespace

std::optional<AttentionBand> BandOf(const AttentionProblem& p,
                                    bool has_lengths) {
  if (p.s == 0 || p.keys == 0 || p.hidden > ops::kAsGoodAsHidden) {
    return std::nullopt;
  }
  if (has_lengths) return BandWithLengths(p);
  int64_t last_row = p.first_row + p.s - 1;
  int64_t begin = 0, end = p.keys;
  if (p.window_after > 0) {
    if (p.first_row + p.window_after <= 0) return std::nullopt;
    end = std::min(end, last_row + p.window_after);
  }
  if (p.window > 0) {
    if (last_row - p.window + 1 >= p.keys) return std::nullopt;
    begin = std::max<int64_t>(0, p.first_row - p.window + 1);
  }
  AttentionBand band = Align(p, p.first_row - begin, end - begin);
  band.first_key = begin;
  // Bounds that bind no row are left out: masks cost time.
  if (p.window > 0 && last_row - p.window < begin) band.left.reset();
  if (p.window_after > 0 && p.first_row + p.window_after >= end) {
    band.right.reset();
  }
  if (!band.left && !band.right) band.bottom_right = false;
  return band;
}

}  // namespace asyra::cuda
