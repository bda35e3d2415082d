#include "passes/shard/conversion_costs.h"

#include <algorithm>

namespace asyra {
namespace {

constexpr int64_t kInfeasible = RedistributionCosts::kInfeasible;
// Cost of avoided choices, which are still used if there is no other.
constexpr int64_t kAvoidedNs = int64_t{1} << 40;

bool Shards(const Type& type, AxisId axis) {
  return std::any_of(
      type.dims.begin(), type.dims.end(),
      [axis](const Dim& dim) { return Contains(dim.axes, axis); });
}

}  // namespace

// Returns whether activations are cut along a model axis or gathered from it.
bool ConversionCosts::Spreads(ValueId value, TypeId have, TypeId need) const {
  const Type& from = types_.type(have);
  const Type& to = types_.type(need);
  if (roles_.is_weight(value) || from.rank() < 2) return false;
  for (int a = 0; a < program_.mesh.num_axes(); ++a) {
    auto axis = static_cast<AxisId>(a);
    if (roles_.role(axis) != AxisRole::kModel) continue;
    bool before = Shards(from, axis), after = Shards(to, axis);
    if (before != after) return true;
  }
  return false;
}

// Returns whether a strategy avoids the conversion: one that keeps tokens
// sharded avoids an all_reduce over a model axis where a reduce_scatter along
// tokens could be.
bool ConversionCosts::Avoided(ValueId value, TypeId have, TypeId need) const {
  if (options_.training && options_.tp_strategy == TpStrategy::kReplicated) {
    return Spreads(value, have, need);
  }
  if (options_.tp_strategy != TpStrategy::kSequence) return false;
  const Type& from = types_.type(have);
  const Type& to = types_.type(need);
  for (AxisId axis : from.partial) {
    bool kept = Contains(to.partial, axis);
    for (const Dim& dim : to.dims) kept |= Contains(dim.axes, axis);
    if (kept || roles_.role(axis) != AxisRole::kModel) continue;
    for (int d = 0; d < to.rank(); ++d) {
      AxisList axes = to.dims[d].axes;
      axes.push_back(axis);
      if (roles_.labels().values[value][d] == DimLabel::kSequence &&
          to.size(d) % program_.mesh.size(axes) == 0) {
        return true;
      }
    }
  }
  return false;
}

int64_t ConversionCosts::Ns(ValueId value, absl::Span<const TypeId> have,
                            TypeId need) {
  int64_t best = kInfeasible;
  for (TypeId form : have) best = std::min(best, FormNs(value, form, need));
  return best;
}

int64_t ConversionCosts::FormNs(ValueId value, TypeId have, TypeId need) {
  auto known = form_ns_.find({value, have, need});
  if (known != form_ns_.end()) return known->second;
  int64_t ns = RedistributeNs(have, need);
  if (ns < kInfeasible && Avoided(value, have, need)) ns += kAvoidedNs;
  form_ns_[{value, have, need}] = ns;
  return ns;
}

int64_t ConversionCosts::RedistributeNs(TypeId have, TypeId need) {
  auto known = redistribute_ns_.find({have, need});
  if (known != redistribute_ns_.end()) return known->second;
  int64_t ns = WithGradientNs(have, need);
  redistribute_ns_[{have, need}] = ns;
  return ns;
}

// Adds the cost of the gradient of a forward value in training, which takes the
// way back: where the value is gathered, its gradient is summed and scattered;
// where it is scattered, gathered. The twin of an all_reduce is one beside it,
// where readers of a whole value leave its gradient partial.
int64_t ConversionCosts::WithGradientNs(TypeId have, TypeId need) {
  int64_t ns = types_.Ns(have, need);
  if (!options_.with_gradients || have == need || ns >= kInfeasible ||
      !IsFloat(types_.type(have).dtype)) {
    return ns;
  }
  const Type& from = types_.type(have);
  const Type& to = types_.type(need);
  Type back = from, gradient = to;
  back.partial.clear();
  gradient.partial.clear();
  for (const Dim& dim : from.dims) {
    for (AxisId axis : dim.axes) {
      if (!Shards(to, axis)) gradient.partial.push_back(axis);
    }
  }
  std::sort(gradient.partial.begin(), gradient.partial.end());
  bool reduces = false;
  for (AxisId axis : from.partial) {
    reduces |= !Shards(to, axis) && !Contains(to.partial, axis);
  }
  int64_t twin = reduces ? ns : types_.Ns(types_.Id(gradient), types_.Id(back));
  return ns + (twin < kInfeasible ? twin : ns);
}

}  // namespace asyra
