#include "passes/shard/walk_sites.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "ir/ops/attention.h"

namespace asyra {
namespace {

bool IsGradient(const Op& op) { return op.def->name == "attention_grad"; }

bool IsAttention(const Op& op) {
  return op.def->name == "attention" ||
         (IsGradient(op) && op.attrs.Get<std::string>("of") == "qkv");
}

// Operands behind q, k and v, or behind those of the gradients.
size_t FirstExtra(const Op& op) {
  return IsGradient(op) ? ops::kFirstGradExtra : ops::kFirstExtra;
}

// Masks and lengths have no part for a shard of the keys. A sink would count in
// the gradients of each.
bool HasPlainKeys(const Program& program, const Op& op) {
  for (size_t i = FirstExtra(op); i < op.operands.size(); ++i) {
    const Type& type = program.type(op.operands[i]);
    if (type.rank() != 1 || !IsFloat(type.dtype) || IsGradient(op)) {
      return false;
    }
  }
  return op.attrs.Int("shards") == 0 && !op.attrs.Bool("at_end") &&
         !op.attrs.Bool("empty_is_nan") &&
         op.attrs.Float("hidden") <= ops::kAsGoodAsHidden;
}

// Returns whether the op's rows are where its keys' shards are.
bool RowsFit(const Op& op, const Type& q, const GatheredKeys& keys,
             const Mesh& mesh) {
  int64_t runs = std::abs(op.attrs.Int("runs")), devices = mesh.size(keys.axes);
  if (q.dims[1].axes != keys.axes || devices < 2) return false;
  if (keys.pairs == 0) return runs == 0 && op.attrs.Int("offset") == 0;
  return runs == devices && keys.pairs == devices &&
         op.attrs.Int("window") == 0 && op.attrs.Int("window_after") == 0;
}

}  // namespace

WalkSites::WalkSites(const Program& program)
    : program_(program),
      definition_(program.values.size(), -1),
      uses_(program.values.size()),
      sites_(program.ops.size()),
      reduction_behind_(program.ops.size(), -1) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    for (ValueId value : program.ops[i].results) {
      definition_[value] = static_cast<int>(i);
    }
    for (ValueId value : program.ops[i].operands) ++uses_[value];
  }
  for (const Output& output : program.outputs) ++uses_[output.value];
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (!IsAttention(op) || !IsSite(op)) continue;
    sites_[i] = true;
    for (int k : {1, 2}) {
      keys_[op.operands[k]] = *Gathered(op.operands[k]);
    }
  }
  FindSums();
}

const GatheredKeys& WalkSites::KeysOf(int op, bool values) const {
  return keys_.at(program_.ops[op].operands[values ? 2 : 1]);
}

std::vector<AxisList> WalkSites::AxesOfSites() const {
  std::vector<AxisList> all;
  for (const auto& [value, keys] : keys_) {
    if (!absl::c_linear_search(all, keys.axes)) all.push_back(keys.axes);
  }
  return all;
}

std::optional<GatheredKeys> WalkSites::Gathered(ValueId value) const {
  GatheredKeys keys;
  int at = definition_[value];
  if (at >= 0 && program_.ops[at].def->name == "unstripe") {
    const Op& order = program_.ops[at];
    if (NormalizeDim(order.attrs.Int("dim"), program_.type(value).rank()) !=
        1) {
      return std::nullopt;
    }
    keys.pairs = order.attrs.Int("pairs");
    at = definition_[order.operands[0]];
  }
  if (at < 0) return std::nullopt;
  const Op& gather = program_.ops[at];
  if (gather.def->collective != CollectiveKind::kAllGather ||
      gather.operands.size() != 1) {
    return std::nullopt;
  }
  keys.shard = gather.operands[0];
  keys.axes = gather.attrs.Get<AxisList>("axes");
  const Type& type = program_.type(keys.shard);
  if (NormalizeDim(gather.attrs.Int("dim"), type.rank()) != 1 ||
      type.dims[1].axes != keys.axes) {
    return std::nullopt;
  }
  return keys;
}

bool WalkSites::IsSite(const Op& op) const {
  std::optional<GatheredKeys> k = Gathered(op.operands[1]),
                              v = Gathered(op.operands[2]);
  if (!k.has_value() || !v.has_value() || !(*k == *v)) return false;
  const Type& q = program_.type(op.operands[0]);
  int64_t rows = q.size(1) * (k->pairs > 0 ? 2 : 1);
  return rows == program_.type(op.operands[1]).size(1) &&
         HasPlainKeys(program_, op) && RowsFit(op, q, *k, program_.mesh);
}

// Collects the gradients whose sum a value is, and the ops that add them.
bool WalkSites::AddGradients(ValueId value, std::vector<ValueId>* gradients,
                             std::vector<int>* ops) const {
  int at = definition_[value];
  if (at < 0 || uses_[value] != 1) return false;
  const Op& op = program_.ops[at];
  if (IsGradient(op)) {
    gradients->push_back(value);
    return sites_[at] && value != op.results[0];
  }
  if (op.def->name != "add") return false;
  ops->push_back(at);
  return absl::c_all_of(op.operands, [&](ValueId operand) {
    return program_.type(operand) == program_.type(value) &&
           AddGradients(operand, gradients, ops);
  });
}

// Returns the value that a reduction sums before it is brought into the form
// that is reduced, and adds the ops between.
ValueId WalkSites::Summed(const Op& reduction, GatheredKeys* keys,
                          std::vector<int>* ops) const {
  ValueId value = reduction.operands[0];
  auto before = [&](std::string_view op) -> const Op* {
    int at = definition_[value];
    if (at < 0 || uses_[value] != 1 || program_.ops[at].def->name != op) {
      return nullptr;
    }
    return &program_.ops[at];
  };
  auto step_back = [&](const Op& op) {
    ops->push_back(definition_[value]);
    value = op.operands[0];
  };
  // Heads as one dimension.
  if (const Op* view = before("reshape")) step_back(*view);
  const Op* order = before("stripe");
  if (order != nullptr && program_.type(value).rank() == 4 &&
      NormalizeDim(order->attrs.Int("dim"), 4) == 1) {
    keys->pairs = order->attrs.Int("pairs");
    step_back(*order);
  }
  return value;
}

// Returns what an op sums, and the ops between, if it reduces gradients of
// keys.
std::optional<std::pair<WalkSites::Sum, std::vector<int>>> WalkSites::SumOf(
    const Op& reduction) const {
  if (reduction.def->collective != CollectiveKind::kReduceScatter ||
      reduction.operands.size() != 1) {
    return std::nullopt;
  }
  const Type& reduced = program_.type(reduction.operands[0]);
  if (NormalizeDim(reduction.attrs.Int("dim"), reduced.rank()) != 1) {
    return std::nullopt;
  }
  Sum sum;
  std::vector<int> ops;
  sum.keys.axes = reduction.attrs.Get<AxisList>("axes");
  ValueId value = Summed(reduction, &sum.keys, &ops);
  const Type& type = program_.type(value);
  if (type.rank() != 4 || !std::equal(type.dims.begin(), type.dims.begin() + 2,
                                      reduced.dims.begin())) {
    return std::nullopt;
  }
  if (!AddGradients(value, &sum.gradients, &ops)) return std::nullopt;
  bool same = absl::c_all_of(sum.gradients, [&](ValueId gradient) {
    return KeysOf(definition_[gradient], false) == sum.keys;
  });
  if (!same) return std::nullopt;
  return std::pair(std::move(sum), std::move(ops));
}

void WalkSites::FindSums() {
  std::map<int, std::vector<int>> between;
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    auto found = SumOf(program_.ops[i]);
    if (!found.has_value()) continue;
    sums_[static_cast<int>(i)] = std::move(found->first);
    between[static_cast<int>(i)] = std::move(found->second);
  }
  while (DropPartlySummed()) {
  }
  for (const auto& [reduction, sum] : sums_) {
    for (int op : between[reduction]) reduction_behind_[op] = reduction;
  }
}

// An op of gradients is taken with all that reads them, or not at all; so is a
// reduction with all that it sums. Returns whether one was dropped.
bool WalkSites::DropPartlySummed() {
  std::map<ValueId, int> summed;  // gradients, and the reduction of each
  for (const auto& [reduction, sum] : sums_) {
    for (ValueId gradient : sum.gradients) summed[gradient] = reduction;
  }
  bool dropped = false;
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    const Op& op = program_.ops[i];
    if (!IsGradient(op) || !sites_[i]) continue;
    auto k = summed.find(op.results[1]), v = summed.find(op.results[2]);
    if (k != summed.end() && v != summed.end()) continue;
    sites_[i] = false;
    dropped = true;
    if (k != summed.end()) sums_.erase(k->second);
    if (v != summed.end()) sums_.erase(v->second);
  }
  return dropped;
}

}  // namespace asyra
