#include "passes/shard/axis_roles.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/split_axes.h"
#include "passes/analysis/dim_uses.h"

namespace asyra {
namespace {

bool IsData(AxisRole role) {
  return role == AxisRole::kBatch || role == AxisRole::kSequence;
}

}  // namespace

AxisRole RoleOf(std::string_view axis) {
  axis = WholeAxisName(axis);
  if (axis == "dp") return AxisRole::kBatch;
  if (axis == "sp") return AxisRole::kSequence;
  if (axis == "tp") return AxisRole::kModel;
  if (axis == "ep") return AxisRole::kExpert;
  return AxisRole::kFree;
}

AxisRoles::AxisRoles(const Program& program, const DimLabels& labels,
                     AxisList expert_axes, TpStrategy tp_strategy,
                     EpStrategy ep_strategy)
    : program_(program),
      labels_(labels),
      expert_axes_(std::move(expert_axes)),
      tp_strategy_(tp_strategy),
      ep_strategy_(ep_strategy),
      allow_all_(program.ops.size(), false) {
  for (const Mesh::Axis& axis : program.mesh.axes()) {
    roles_.push_back(RoleOf(axis.name));
    insistence_.push_back(Insistence::kNone);
  }
  FindMinorMatrices();
  FindExperts();
}

// Bytes of the largest weight matrix that the op reads.
int64_t AxisRoles::MatrixBytes(int i) const {
  int64_t bytes = 0;
  for (ValueId value : program_.ops[i].operands) {
    const Type& type = program_.type(value);
    if (labels_.of_weights[value] && type.rank() >= 2) {
      bytes = std::max(bytes, type.bytes());
    }
  }
  return bytes;
}

// The smallest ones that together hold less than a 256th of all.
void AxisRoles::FindMinorMatrices() {
  std::map<int64_t, int64_t> of_size;  // bytes of one: of all such
  int64_t total = 0;
  for (const Input& input : program_.inputs) {
    const Type& type = program_.type(input.value);
    if (!IsWeight(input) || type.rank() < 2) continue;
    of_size[type.bytes()] += type.bytes();
    total += type.bytes();
  }
  int64_t sum = 0;
  for (auto [bytes, all] : of_size) {
    sum += all;
    if (sum >= total / 256) break;
    minor_bytes_ = bytes;
  }
}

bool AxisRoles::MayBeWhole(ValueId input) const {
  const Type& type = program_.type(input);
  return !labels_.of_weights[input] || type.rank() < 2 ||
         type.bytes() <= minor_bytes_;
}

bool AxisRoles::IsOwn(DimLabel label, AxisId axis) const {
  switch (roles_[axis]) {
    case AxisRole::kBatch:
      return label == DimLabel::kBatch;
    case AxisRole::kSequence:
      return label == DimLabel::kSequence;
    default:
      return false;
  }
}

bool AxisRoles::InWeightMatrix(int i, FactorId factor) const {
  const Op& op = program_.ops[i];
  for (size_t k = 0; k < op.operands.size(); ++k) {
    if (labels_.of_weights[op.operands[k]] &&
        program_.type(op.operands[k]).rank() >= 2 &&
        labels_.rules[i].UsedByOperand(factor, static_cast<int>(k))) {
      return true;
    }
  }
  return false;
}

bool AxisRoles::ContractsWeights(int i) const {
  return asyra::ContractsWeights(program_, program_.ops[i], labels_.rules[i],
                                 labels_.of_weights);
}

// A batch dimension of matmuls with weights: the weights, what they multiply
// and the result all have it.
bool AxisRoles::IsExpert(int i, FactorId factor) const {
  const Op& op = program_.ops[i];
  const AxisRule& rule = labels_.rules[i];
  if (rule.factors[factor].size == 1 || !ContractsWeights(i)) return false;
  bool in_weights = false, in_data = false, in_result = false;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    if (!rule.UsedByOperand(factor, static_cast<int>(k))) continue;
    bool cube = program_.type(op.operands[k]).rank() >= 3;
    (labels_.of_weights[op.operands[k]] && cube ? in_weights : in_data) = true;
  }
  for (const DimFactors& dim : rule.results[0]) {
    in_result |= std::find(dim.begin(), dim.end(), factor) != dim.end();
  }
  return in_weights && in_data && in_result;
}

bool AxisRoles::HasExpert(int i) const {
  for (size_t f = 0; f < labels_.rules[i].factors.size(); ++f) {
    if (IsExpert(i, static_cast<FactorId>(f))) return true;
  }
  return false;
}

// Starting at matmuls with weights, along factors that are whole dimensions,
// forward and backward to a fixed point.
void AxisRoles::FindExperts() {
  std::vector<std::vector<bool>> dims;  // by value
  for (const Value& value : program_.values) {
    dims.emplace_back(value.type.rank(), false);
  }
  int count = static_cast<int>(program_.ops.size());
  for (int i = 0; i < count; ++i) {
    expert_factors_.emplace_back();
    for (size_t f = 0; f < labels_.rules[i].factors.size(); ++f) {
      expert_factors_[i].push_back(IsExpert(i, static_cast<FactorId>(f)));
      has_experts_ |= expert_factors_[i].back();
    }
  }
  if (!has_experts_) return;
  bool changed = true;
  auto visit = [&](int i) {
    const Op& op = program_.ops[i];
    auto each = [&](const auto& values, const auto& rules, bool write) {
      for (size_t k = 0; k < values.size(); ++k) {
        for (size_t d = 0; d < rules[k].size(); ++d) {
          if (rules[k][d].size() != 1) continue;
          std::vector<bool>::reference dim = dims[values[k]][d];
          std::vector<bool>::reference factor =
              expert_factors_[i][rules[k][d][0]];
          if (dim == factor || (write ? dim : factor)) continue;
          (write ? dim : factor) = true;
          changed = true;
        }
      }
    };
    for (bool write : {false, true}) {
      each(op.operands, labels_.rules[i].operands, write);
      each(op.results, labels_.rules[i].results, write);
    }
  };
  while (changed) {
    changed = false;
    for (int i = 0; i < count; ++i) visit(i);
    for (int i = count; i-- > 0;) visit(i);
  }
}

bool AxisRoles::IsMatmulOfData(int i) const {
  return asyra::IsMatmulOfData(program_, program_.ops[i], labels_.of_weights);
}

bool AxisRoles::MovesToExperts(int i) const {
  const AxisRule& rule = labels_.rules[i];
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (!expert_factors_[i][f]) continue;
    auto factor = static_cast<FactorId>(f);
    bool read = false, written = false;
    for (size_t k = 0; k < rule.operands.size(); ++k) {
      read |= rule.UsedByOperand(factor, static_cast<int>(k));
    }
    for (const OperandFactors& result : rule.results) {
      for (const DimFactors& dim : result) {
        written |= std::find(dim.begin(), dim.end(), factor) != dim.end();
      }
    }
    if (read != written) return true;
  }
  return false;
}

bool AxisRoles::ShardsExperts(AxisId axis) const {
  return roles_[axis] == AxisRole::kExpert || Contains(expert_axes_, axis);
}

// Axes assigned to experts come first: another axis may divide experts only if
// the product of all these sizes divides their number.
bool AxisRoles::MayTakeExperts(int i, FactorId factor, AxisId axis) const {
  if (!expert_factors_[i][factor]) return true;
  int64_t devices = 1;
  for (int a = 0; a < program_.mesh.num_axes(); ++a) {
    auto other = static_cast<AxisId>(a);
    if (ShardsExperts(other)) devices *= program_.mesh.size(other);
  }
  int64_t experts = labels_.rules[i].factors[factor].size;
  return experts % devices != 0 ||
         experts % (devices * program_.mesh.size(axis)) == 0;
}

// Returns whether experts are one of the op's dimensions.
bool AxisRoles::TouchesExperts(int i) const {
  const std::vector<bool>& factors = expert_factors_[i];
  return std::find(factors.begin(), factors.end(), true) != factors.end();
}

// Returns whether op sums over a factor that all its operands have.
bool AxisRoles::SumsOperands(int i, FactorId factor) const {
  const AxisRule& rule = labels_.rules[i];
  if (rule.factors[factor].kind != FactorKind::kSum) return false;
  for (size_t k = 0; k < rule.operands.size(); ++k) {
    if (!rule.UsedByOperand(factor, static_cast<int>(k))) return false;
  }
  return true;
}

bool AxisRoles::HasRuns(int i) const {
  const Op& op = program_.ops[i];
  return FindAttr(*op.def, "runs") != nullptr && op.attrs.Int("runs") != 0;
}

bool AxisRoles::SharesRuns(int i, AxisId axis) const {
  int64_t devices = 1;
  for (AxisId outer = 0; outer <= axis; ++outer) {
    bool shards = roles_[outer] == AxisRole::kSequence;
    devices *= shards ? program_.mesh.size(outer) : 1;
  }
  return devices <= std::abs(program_.ops[i].attrs.Int("runs"));
}

bool AxisRoles::IsForRows(AxisId axis) const {
  return roles_[axis] == AxisRole::kSequence &&
         program_.mesh.name(axis).ends_with(std::string(".") + kRowsPart);
}

bool AxisRoles::Allows(int i, FactorId factor, AxisId axis) const {
  if (allow_all_[i]) return true;
  DimLabel label = labels_.factors[i][factor];
  bool weight = InWeightMatrix(i, factor);
  bool of_weights = weight && labels_.of_weights[program_.ops[i].results[0]];
  if (ShardsExperts(axis) && label != DimLabel::kBatch &&
      (!weight || IsExpert(i, factor) ||
       (of_weights && expert_factors_[i][factor]))) {
    return true;
  }
  switch (roles_[axis]) {
    case AxisRole::kBatch:
      return label == DimLabel::kBatch;
    case AxisRole::kSequence:
      // A table of positions is cut with the tokens it belongs to.
      if (HasRuns(i)) {
        bool rows = labels_.rules[i].factors[factor].positional;
        if (rows || SharesRuns(i, axis)) return rows && SharesRuns(i, axis);
      }
      if (IsForRows(axis) && IsMatmulOfData(i)) {
        return label == DimLabel::kSequence;
      }
      return label == DimLabel::kSequence ||
             (label != DimLabel::kBatch && !weight);
    case AxisRole::kModel:
      return label != DimLabel::kBatch && MayTakeExperts(i, factor, axis) &&
             (tp_strategy_ != TpStrategy::kReplicated ||
              label != DimLabel::kSequence);
    case AxisRole::kExpert:
      return label != DimLabel::kNone;
    case AxisRole::kFree:
      return MayTakeExperts(i, factor, axis);
  }
  return true;
}

bool AxisRoles::Divides(int i, FactorId factor, AxisId axis) const {
  DimLabel label = labels_.factors[i][factor];
  if (ShardsExperts(axis) && MovesToExperts(i)) {
    if (ep_strategy_ == EpStrategy::kAllToAll) return label != DimLabel::kNone;
    return ep_strategy_ == EpStrategy::kAllGather && expert_factors_[i][factor];
  }
  if (divide_sums_ && IsOwn(label, axis) && SumsOperands(i, factor)) {
    return !ShardsExperts(axis) || !TouchesExperts(i);
  }
  if (roles_[axis] == AxisRole::kSequence && HasRuns(i) &&
      SharesRuns(i, axis)) {
    return labels_.rules[i].factors[factor].positional;
  }
  if (!ContractsWeights(i)) return false;
  if (ShardsExperts(axis) && HasExpert(i)) return IsExpert(i, factor);
  if (roles_[axis] == AxisRole::kModel) {
    return MatrixBytes(i) > minor_bytes_ && InWeightMatrix(i, factor);
  }
  return IsOwn(label, axis);
}

bool AxisRoles::Insist(AxisId axis) {
  Insistence most = roles_[axis] == AxisRole::kExpert ? Insistence::kHeads
                    : IsData(roles_[axis])            ? Insistence::kOwn
                                                      : Insistence::kAnyOp;
  if (insistence_[axis] == most) return false;
  insistence_[axis] =
      static_cast<Insistence>(static_cast<int>(insistence_[axis]) + 1);
  return true;
}

bool AxisRoles::Insists(int i, FactorId factor, AxisId axis) const {
  DimLabel label = labels_.factors[i][factor];
  bool matmul = IsMatmulOfData(i) || ContractsWeights(i);
  switch (insistence_[axis]) {
    case Insistence::kNone:
      return false;
    case Insistence::kOwnInMatmuls:
      return matmul && IsOwn(label, axis);
    case Insistence::kHeads:
      return IsMatmulOfData(i) && label == DimLabel::kNone &&
             labels_.rules[i].factors[factor].kind == FactorKind::kParallel;
    case Insistence::kOwn:
      return IsOwn(label, axis);
    case Insistence::kMatmuls:
      return matmul;
    case Insistence::kAnyOp:
      return true;
  }
  return false;
}

bool AxisRoles::MustDivide(int i, AxisId axis) const {
  for (size_t f = 0; f < labels_.rules[i].factors.size(); ++f) {
    if (Divides(i, static_cast<FactorId>(f), axis)) return true;
  }
  return false;
}

AxisList AxisRoles::Ordered(AxisList axes, DimLabel label,
                            bool experts_outside) const {
  bool tokens = label != DimLabel::kNone;
  auto distance = [&](AxisId axis) {
    if (IsData(roles_[axis])) return tokens ? 0 : 2;
    if (tokens) return 1;
    return (roles_[axis] == AxisRole::kExpert) == experts_outside ? 0 : 1;
  };
  std::sort(axes.begin(), axes.end(), [&](AxisId a, AxisId b) {
    return std::pair(distance(a), a) < std::pair(distance(b), b);
  });
  return axes;
}

bool AxisRoles::HasTwoOrders(const AxisList& axes, DimLabel label) const {
  return axes.size() > 1 &&
         Ordered(axes, label, true) != Ordered(axes, label, false);
}

}  // namespace asyra
