#include "passes/analysis/value_facts.h"

#include <algorithm>
#include <cmath>

#include "passes/analysis/fact_rules.h"
#include "passes/analysis/op_shape.h"

namespace asyra {
namespace {

// Integers up to this are exact in the type; facts do not go beyond, so that
// arithmetic on them is the arithmetic of the program.
double ExactLimit(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return 1;
    case DType::kI32:
      return 2147483647.0;
    case DType::kF16:
      return 2048;
    case DType::kBF16:
      return 256;
    case DType::kF32:
      return 16777216;
    case DType::kI64:
    case DType::kF64:
      return 9007199254740992.0;
  }
  return 0;
}

bool IsExact(const Affine& affine, const Type& type) {
  Range range = RangeOf(affine, type.shape());
  double limit = ExactLimit(type.dtype);
  if (affine.is_uniform()) {
    return IsFloat(type.dtype) || std::abs(affine.offset) <= limit;
  }
  return IsWhole(affine.offset) && range.low >= -limit && range.high <= limit &&
         std::all_of(affine.strides.begin(), affine.strides.end(), IsWhole);
}

// Decides inequalities that hold or fail everywhere, and negates a single one
// if the larger value is outside of it.
Fact NormalPredicate(Fact fact, const Type& type) {
  Shape shape = type.shape();
  std::vector<Affine> kept;
  for (const Affine& affine : fact.all) {
    Range range = RangeOf(affine, shape);
    if (range.high < 0) return Fact::UniformOf(fact.no, type.rank());
    if (range.low >= 0) continue;
    if (std::find(kept.begin(), kept.end(), affine) == kept.end()) {
      kept.push_back(affine);
    }
  }
  fact.all = std::move(kept);
  if (fact.all.empty() || fact.yes == fact.no) {
    return Fact::UniformOf(fact.yes, type.rank());
  }
  if (fact.yes < fact.no && fact.all.size() == 1) {
    fact.all[0] = Plus(Negated(fact.all[0]), -1);
    std::swap(fact.yes, fact.no);
  }
  return fact;
}

Fact Normal(Fact fact, const Type& type) {
  if (fact.kind == Fact::kPredicate) return NormalPredicate(fact, type);
  if (fact.kind == Fact::kAffine && !IsExact(fact.affine, type)) return {};
  return fact;
}

}  // namespace

bool Affine::is_uniform() const {
  return std::all_of(strides.begin(), strides.end(),
                     [](double stride) { return stride == 0; });
}

Fact WithRank(const Fact& fact, int rank) {
  return MapAffines(fact, [rank](Affine& affine) {
    affine.strides.insert(affine.strides.begin(), rank - affine.strides.size(),
                          0.0);
  });
}

Fact Fact::UniformOf(double number, int rank) {
  Fact fact;
  fact.kind = kAffine;
  fact.affine.offset = number;
  fact.affine.strides.assign(rank, 0.0);
  return fact;
}

bool Fact::IsUniform(double* number) const {
  if (kind != kAffine || !affine.is_uniform()) return false;
  if (number != nullptr) *number = affine.offset;
  return true;
}

Range RangeOf(const Affine& affine, const Shape& shape) {
  Range range{affine.offset, affine.offset};
  for (size_t i = 0; i < shape.size(); ++i) {
    double reach = affine.strides[i] * static_cast<double>(shape[i] - 1);
    (reach < 0 ? range.low : range.high) += reach;
  }
  return range;
}

Fact ValueFacts::Derive(const Op& op, absl::Span<const Type> operands,
                        const Type& result) {
  bool elementwise = IsElementwise(*op.def);
  const FactRule* rule = FindFactRule(op.def->name);
  if ((!elementwise && rule == nullptr) || result.num_elements() == 0) {
    return {};
  }
  size_t needed = op.operands.size();
  if (rule != nullptr && rule->operands >= 0) {
    needed = std::min<size_t>(needed, rule->operands);
  }
  if (Fact view = OfStoredView(op, result); view.kind != Fact::kUnknown) {
    return view;
  }
  // Stored data is read last, and only if it can still matter.
  for (bool unread : {false, true}) {
    for (size_t i = 0; i < needed; ++i) {
      const Entry& entry = entries_[op.operands[i]];
      if ((entry.unread != nullptr) != unread) continue;
      if (Of(op.operands[i]).kind == Fact::kUnknown) return {};
    }
  }
  FactCall call{op, operands, result, {}};
  for (size_t i = 0; i < needed; ++i) {
    const Fact& fact = Of(op.operands[i]);
    call.facts.push_back(elementwise ? WithRank(fact, result.rank()) : fact);
  }
  if (elementwise) {
    Fact fact = Normal(FactOnScalars(call), result);
    if (fact.kind != Fact::kUnknown) return fact;
  }
  return rule == nullptr ? Fact() : Normal(rule->derive(call), result);
}

// Positions that were stored flat, one sequence after the other, make sense
// under the shape they are reshaped to.
Fact ValueFacts::OfStoredView(const Op& op, const Type& result) {
  const Tensor* data =
      op.def->name == "reshape" ? entries_[op.operands[0]].data : nullptr;
  if (data == nullptr || IsFloat(data->dtype())) return {};
  return FactOfData(data->Reshaped(result.shape()));
}

void ValueFacts::Add(ValueId value, const Tensor* data) {
  entries_.resize(value + 1);
  entries_[value].unread = data;
  entries_[value].data = data;
}

void ValueFacts::Add(ValueId value, Fact fact) {
  entries_.resize(value + 1);
  entries_[value].fact = std::move(fact);
}

const Fact& ValueFacts::Of(ValueId value) {
  Entry& entry = entries_[value];
  if (entry.unread != nullptr) {
    entry.fact = FactOfData(*entry.unread);
    if (IsFloat(entry.unread->dtype()) && entry.fact.IsUniform()) {
      entry.fact = {};
    }
    entry.unread = nullptr;
  }
  return entry.fact;
}

}  // namespace asyra
