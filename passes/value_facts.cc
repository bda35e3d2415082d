#include "passes/value_facts.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "ir/interpreter.h"
#include "passes/op_shape.h"

namespace asyra {
namespace {

using Strides = absl::InlinedVector<double, 4>;

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

bool IsWhole(double value) { return value == std::trunc(value); }

bool IsExact(const Affine& affine, const Type& type) {
  Range range = RangeOf(affine, type.shape());
  double limit = ExactLimit(type.dtype);
  if (affine.is_uniform()) {
    return IsFloat(type.dtype) || std::abs(affine.offset) <= limit;
  }
  return IsWhole(affine.offset) && range.low >= -limit && range.high <= limit &&
         std::all_of(affine.strides.begin(), affine.strides.end(), IsWhole);
}

Affine Negated(Affine affine) {
  affine.offset = -affine.offset;
  for (double& stride : affine.strides) stride = -stride;
  return affine;
}

Affine Sum(const Affine& a, const Affine& b) {
  Affine sum = a;
  sum.offset += b.offset;
  for (size_t i = 0; i < sum.strides.size(); ++i) {
    sum.strides[i] += b.strides[i];
  }
  return sum;
}

Affine Plus(Affine a, double number) {
  a.offset += number;
  return a;
}

Fact AffineFact(Affine affine) {
  Fact fact;
  fact.kind = Fact::kAffine;
  fact.affine = std::move(affine);
  return fact;
}

Fact PredicateFact(std::vector<Affine> all, double yes = 1, double no = 0) {
  Fact fact;
  fact.kind = Fact::kPredicate;
  fact.all = std::move(all);
  fact.yes = yes;
  fact.no = no;
  return fact;
}

// Decides inequalities that hold or fail everywhere, and turns a single one
// around where its larger value is elsewhere.
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

// Applies `change` to every list of strides of the fact; offsets stay.
template <typename F>
Fact MapAffines(Fact fact, F change) {
  if (fact.kind == Fact::kAffine) change(fact.affine);
  for (Affine& affine : fact.all) change(affine);
  return fact;
}

// Right aligned into more dimensions, as broadcasting does.
Fact WithRank(const Fact& fact, int rank) {
  return MapAffines(fact, [rank](Affine& affine) {
    affine.strides.insert(affine.strides.begin(), rank - affine.strides.size(),
                          0.0);
  });
}

struct Call {
  const Op& op;
  absl::Span<const Type> types;
  const Type& result;
  std::vector<Fact> facts;  // known ones, of the result's rank if elementwise
};

// All operands uniform, or split by one and the same predicate: the op itself
// is run on one element a side.
Fact OnScalars(const Call& call) {
  const std::vector<Affine>* all = nullptr;
  for (const Fact& fact : call.facts) {
    if (fact.IsUniform()) continue;
    if (fact.kind != Fact::kPredicate) return {};
    if (all != nullptr && *all != fact.all) return {};
    all = &fact.all;
  }
  double sides[2];
  for (int side = 0; side < 2; ++side) {
    std::vector<Tensor> scalars;
    for (size_t i = 0; i < call.facts.size(); ++i) {
      const Fact& fact = call.facts[i];
      double value = fact.kind == Fact::kAffine ? fact.affine.offset
                     : side == 0                ? fact.yes
                                                : fact.no;
      scalars.push_back(Tensor::FromDoubles(call.types[i].dtype, {1}, {value}));
    }
    auto results = Evaluate(*call.op.def, call.op.attrs, scalars);
    if (!results.ok()) return {};
    sides[side] = (*results)[0].Get(0);
    if (all == nullptr) return Fact::UniformOf(sides[0], call.result.rank());
  }
  return PredicateFact(*all, sides[0], sides[1]);
}

bool BothAffine(const Call& call) {
  return call.facts[0].kind == Fact::kAffine &&
         call.facts[1].kind == Fact::kAffine;
}

// lhs - rhs, whole numbers.
bool Difference(const Call& call, Affine* difference) {
  if (!BothAffine(call)) return false;
  *difference = Sum(call.facts[0].affine, Negated(call.facts[1].affine));
  return IsWhole(difference->offset);
}

Fact Add(const Call& call) {
  if (!BothAffine(call)) return {};
  return AffineFact(Sum(call.facts[0].affine, call.facts[1].affine));
}

Fact Sub(const Call& call) {
  if (!BothAffine(call)) return {};
  return AffineFact(Sum(call.facts[0].affine, Negated(call.facts[1].affine)));
}

Fact Mul(const Call& call) {
  if (!BothAffine(call)) return {};
  Affine a = call.facts[0].affine, b = call.facts[1].affine;
  if (!b.is_uniform()) std::swap(a, b);
  if (!b.is_uniform()) return {};
  for (double& stride : a.strides) stride *= b.offset;
  a.offset *= b.offset;
  return AffineFact(std::move(a));
}

Fact Neg(const Call& call) {
  if (call.facts[0].kind != Fact::kAffine) return {};
  return AffineFact(Negated(call.facts[0].affine));
}

Fact Cast(const Call& call) {
  if (call.result.dtype == DType::kBool) return {};
  return call.facts[0];  // whole numbers; Normal checks that they fit
}

Fact MinMax(const Call& call, bool max) {
  Affine difference;
  if (!Difference(call, &difference)) return {};
  Range range = RangeOf(difference, call.result.shape());
  if (range.low >= 0) return call.facts[max ? 0 : 1];
  if (range.high <= 0) return call.facts[max ? 1 : 0];
  return {};
}

Fact Max(const Call& call) { return MinMax(call, true); }
Fact Min(const Call& call) { return MinMax(call, false); }

Fact LessEqual(const Call& call) {
  Affine difference;
  if (!Difference(call, &difference)) return {};
  return PredicateFact({Negated(difference)});
}

Fact Less(const Call& call) {
  Affine difference;
  if (!Difference(call, &difference)) return {};
  return PredicateFact({Plus(Negated(difference), -1)});
}

Fact Equal(const Call& call) {
  Affine difference;
  if (!Difference(call, &difference)) return {};
  return PredicateFact({difference, Negated(difference)});
}

// `positive`: both hold where their inequalities do. Otherwise both are
// negations, and so is the result.
Fact Join(const Call& call, bool positive) {
  std::vector<Affine> all;
  for (const Fact& fact : call.facts) {
    if (!fact.IsMask(positive ? 1 : 0, positive ? 0 : 1)) return {};
    all.insert(all.end(), fact.all.begin(), fact.all.end());
  }
  return PredicateFact(std::move(all), positive ? 1 : 0, positive ? 0 : 1);
}

Fact And(const Call& call) {
  double value;
  for (int i : {0, 1}) {
    if (call.facts[i].IsUniform(&value)) {
      return call.facts[value != 0 ? 1 - i : i];
    }
  }
  return Join(call, true);
}

Fact Or(const Call& call) {
  double value;
  for (int i : {0, 1}) {
    if (call.facts[i].IsUniform(&value)) {
      return call.facts[value != 0 ? i : 1 - i];
    }
  }
  return Join(call, false);
}

Fact Iota(const Call& call) {
  Affine affine;
  affine.strides.assign(call.result.rank(), 0);
  int dim = NormalizeDim(call.op.attrs.Int("dim"), call.result.rank());
  if (call.result.size(dim) > 1) affine.strides[dim] = 1;
  return AffineFact(std::move(affine));
}

Fact Constant(const Call& call) {
  return FactOfData(call.op.attrs.Get<Tensor>("value"));
}

Fact Broadcast(const Call& call) {
  return WithRank(call.facts[0], call.result.rank());
}

Fact Reshape(const Call& call) {
  double number;
  if (call.facts[0].IsUniform(&number)) {
    return Fact::UniformOf(number, call.result.rank());
  }
  // Only dimensions of size 1 may come and go.
  std::vector<int> from;
  for (int i = 0; i < call.types[0].rank(); ++i) {
    if (call.types[0].size(i) != 1) from.push_back(i);
  }
  std::vector<int> source(call.result.rank(), -1);
  size_t next = 0;
  for (int i = 0; i < call.result.rank(); ++i) {
    if (call.result.size(i) == 1) continue;
    if (next == from.size() ||
        call.types[0].size(from[next]) != call.result.size(i)) {
      return {};
    }
    source[i] = from[next++];
  }
  return MapAffines(call.facts[0], [&](Affine& affine) {
    Strides strides;
    for (int i : source) strides.push_back(i < 0 ? 0 : affine.strides[i]);
    affine.strides = strides;
  });
}

Fact Transpose(const Call& call) {
  const Ints& perm = call.op.attrs.Get<Ints>("perm");
  return MapAffines(call.facts[0], [&](Affine& affine) {
    Strides strides;
    for (int64_t i : perm) {
      strides.push_back(affine.strides[NormalizeDim(i, call.result.rank())]);
    }
    affine.strides = strides;
  });
}

Fact Slice(const Call& call) {
  int dim = NormalizeDim(call.op.attrs.Int("dim"), call.result.rank());
  auto start = static_cast<double>(call.op.attrs.Int("start"));
  auto step = static_cast<double>(call.op.attrs.Int("step"));
  bool one = call.result.size(dim) == 1;
  return MapAffines(call.facts[0], [&](Affine& affine) {
    affine.offset += start * affine.strides[dim];
    affine.strides[dim] = one ? 0 : affine.strides[dim] * step;
  });
}

// Parts that continue one another, as -1 and 0, 1, 2, ... do.
Fact Concat(const Call& call) {
  int dim = NormalizeDim(call.op.attrs.Int("dim"), call.result.rank());
  Affine whole;
  int64_t start = 0;
  for (size_t i = 0; i < call.facts.size(); ++i) {
    if (call.facts[i].kind != Fact::kAffine) return {};
    const Affine& part = call.facts[i].affine;
    if (i == 0) whole = part;
    if (i == 1) {
      double step = (part.offset - whole.offset) / static_cast<double>(start);
      if (call.types[0].size(dim) == 1) whole.strides[dim] = step;
    }
    Affine expected = whole;
    expected.offset += static_cast<double>(start) * whole.strides[dim];
    if (call.types[i].size(dim) == 1) expected.strides[dim] = 0;
    if (!(expected == part)) return {};
    start += call.types[i].size(dim);
  }
  return AffineFact(std::move(whole));
}

Fact CumSum(const Call& call) {
  double number;
  if (!call.facts[0].IsUniform(&number)) return {};
  int dim = NormalizeDim(call.op.attrs.Int("dim"), call.result.rank());
  auto last = static_cast<double>(call.result.size(dim) - 1);
  double first = call.op.attrs.Bool("exclusive") ? 0 : number;
  bool reverse = call.op.attrs.Bool("reverse");
  Fact fact = Fact::UniformOf(reverse ? first + number * last : first,
                              call.result.rank());
  if (last > 0) fact.affine.strides[dim] = reverse ? -number : number;
  return fact;
}

// Whatever is picked, it is the same.
Fact GatherUniform(const Call& call) {
  double number;
  if (!call.facts[0].IsUniform(&number)) return {};
  return Fact::UniformOf(number, call.result.rank());
}

struct Handler {
  Fact (*derive)(const Call&) = nullptr;
  int operands = -1;  // how many must be known; -1: all
};

const Handler* FindHandler(std::string_view name) {
  static const auto* handlers =
      new absl::flat_hash_map<std::string_view, Handler>{
          {"add", {Add}},
          {"sub", {Sub}},
          {"mul", {Mul}},
          {"neg", {Neg}},
          {"cast", {Cast}},
          {"max", {Max}},
          {"min", {Min}},
          {"less_equal", {LessEqual}},
          {"less", {Less}},
          {"equal", {Equal}},
          {"and", {And}},
          {"or", {Or}},
          {"iota", {Iota}},
          {"constant", {Constant}},
          {"broadcast", {Broadcast}},
          {"reshape", {Reshape}},
          {"transpose", {Transpose}},
          {"slice", {Slice}},
          {"concat", {Concat}},
          {"cumsum", {CumSum}},
          {"gather", {GatherUniform, 1}},
          {"gather_nd", {GatherUniform, 1}},
      };
  auto found = handlers->find(name);
  return found == handlers->end() ? nullptr : &found->second;
}

}  // namespace

bool Affine::is_uniform() const {
  return std::all_of(strides.begin(), strides.end(),
                     [](double stride) { return stride == 0; });
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
  const Handler* handler = FindHandler(op.def->name);
  if ((!elementwise && handler == nullptr) || result.num_elements() == 0) {
    return {};
  }
  size_t needed = op.operands.size();
  if (handler != nullptr && handler->operands >= 0) {
    needed = std::min<size_t>(needed, handler->operands);
  }
  // Stored data is read last, and only if it can still matter.
  for (bool unread : {false, true}) {
    for (size_t i = 0; i < needed; ++i) {
      const Entry& entry = entries_[op.operands[i]];
      if ((entry.unread != nullptr) != unread) continue;
      if (Of(op.operands[i]).kind == Fact::kUnknown) return {};
    }
  }
  Call call{op, operands, result, {}};
  for (size_t i = 0; i < needed; ++i) {
    const Fact& fact = Of(op.operands[i]);
    call.facts.push_back(elementwise ? WithRank(fact, result.rank()) : fact);
  }
  if (elementwise) {
    Fact fact = Normal(OnScalars(call), result);
    if (fact.kind != Fact::kUnknown) return fact;
  }
  return handler == nullptr ? Fact() : Normal(handler->derive(call), result);
}

void ValueFacts::Add(ValueId value, const Tensor* data) {
  entries_.resize(value + 1);
  entries_[value].unread = data;
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
