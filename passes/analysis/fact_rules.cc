#include "passes/analysis/fact_rules.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "ir/interpreter.h"

namespace asyra {
namespace {

using Strides = absl::InlinedVector<double, 4>;

Affine Sum(const Affine& a, const Affine& b) {
  Affine sum = a;
  sum.offset += b.offset;
  for (size_t i = 0; i < sum.strides.size(); ++i) {
    sum.strides[i] += b.strides[i];
  }
  return sum;
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

bool BothAffine(const FactCall& call) {
  return call.facts[0].kind == Fact::kAffine &&
         call.facts[1].kind == Fact::kAffine;
}

// lhs - rhs, whole numbers.
bool Difference(const FactCall& call, Affine* difference) {
  if (!BothAffine(call)) return false;
  *difference = Sum(call.facts[0].affine, Negated(call.facts[1].affine));
  return IsWhole(difference->offset);
}

Fact Add(const FactCall& call) {
  if (!BothAffine(call)) return {};
  return AffineFact(Sum(call.facts[0].affine, call.facts[1].affine));
}

Fact Sub(const FactCall& call) {
  if (!BothAffine(call)) return {};
  return AffineFact(Sum(call.facts[0].affine, Negated(call.facts[1].affine)));
}

Fact Mul(const FactCall& call) {
  if (!BothAffine(call)) return {};
  Affine a = call.facts[0].affine, b = call.facts[1].affine;
  if (!b.is_uniform()) std::swap(a, b);
  if (!b.is_uniform()) return {};
  for (double& stride : a.strides) stride *= b.offset;
  a.offset *= b.offset;
  return AffineFact(std::move(a));
}

Fact Neg(const FactCall& call) {
  if (call.facts[0].kind != Fact::kAffine) return {};
  return AffineFact(Negated(call.facts[0].affine));
}

Fact Cast(const FactCall& call) {
  if (call.result.dtype == DType::kBool) return {};
  return call.facts[0];  // whole numbers; Normal checks that they fit
}

Fact MinMax(const FactCall& call, bool max) {
  Affine difference;
  if (!Difference(call, &difference)) return {};
  Range range = RangeOf(difference, call.result.shape());
  if (range.low >= 0) return call.facts[max ? 0 : 1];
  if (range.high <= 0) return call.facts[max ? 1 : 0];
  return {};
}

Fact Max(const FactCall& call) { return MinMax(call, true); }
Fact Min(const FactCall& call) { return MinMax(call, false); }

Fact LessEqual(const FactCall& call) {
  Affine difference;
  if (!Difference(call, &difference)) return {};
  return PredicateFact({Negated(difference)});
}

Fact Less(const FactCall& call) {
  Affine difference;
  if (!Difference(call, &difference)) return {};
  return PredicateFact({Plus(Negated(difference), -1)});
}

Fact Equal(const FactCall& call) {
  Affine difference;
  if (!Difference(call, &difference)) return {};
  return PredicateFact({difference, Negated(difference)});
}

// `positive`: both hold where their inequalities do. Otherwise both are
// negations, and so is the result.
Fact Join(const FactCall& call, bool positive) {
  std::vector<Affine> all;
  for (const Fact& fact : call.facts) {
    if (!fact.IsMask(positive ? 1 : 0, positive ? 0 : 1)) return {};
    all.insert(all.end(), fact.all.begin(), fact.all.end());
  }
  return PredicateFact(std::move(all), positive ? 1 : 0, positive ? 0 : 1);
}

Fact And(const FactCall& call) {
  double value;
  for (int i : {0, 1}) {
    if (call.facts[i].IsUniform(&value)) {
      return call.facts[value != 0 ? 1 - i : i];
    }
  }
  return Join(call, true);
}

Fact Or(const FactCall& call) {
  double value;
  for (int i : {0, 1}) {
    if (call.facts[i].IsUniform(&value)) {
      return call.facts[value != 0 ? i : 1 - i];
    }
  }
  return Join(call, false);
}

Fact Iota(const FactCall& call) {
  Affine affine;
  affine.strides.assign(call.result.rank(), 0);
  int dim = NormalizeDim(call.op.attrs.Int("dim"), call.result.rank());
  if (call.result.size(dim) > 1) affine.strides[dim] = 1;
  return AffineFact(std::move(affine));
}

Fact Constant(const FactCall& call) {
  return FactOfData(call.op.attrs.Get<Tensor>("value"));
}

Fact Broadcast(const FactCall& call) {
  return WithRank(call.facts[0], call.result.rank());
}

Fact Reshape(const FactCall& call) {
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

Fact Transpose(const FactCall& call) {
  const Ints& perm = call.op.attrs.Get<Ints>("perm");
  return MapAffines(call.facts[0], [&](Affine& affine) {
    Strides strides;
    for (int64_t i : perm) {
      strides.push_back(affine.strides[NormalizeDim(i, call.result.rank())]);
    }
    affine.strides = strides;
  });
}

Fact Slice(const FactCall& call) {
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
Fact Concat(const FactCall& call) {
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

Fact CumSum(const FactCall& call) {
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

// All elements are equal, so the indices do not matter.
Fact GatherUniform(const FactCall& call) {
  double number;
  if (!call.facts[0].IsUniform(&number)) return {};
  return Fact::UniformOf(number, call.result.rank());
}

}  // namespace

Affine Negated(Affine affine) {
  affine.offset = -affine.offset;
  for (double& stride : affine.strides) stride = -stride;
  return affine;
}

Affine Plus(Affine a, double number) {
  a.offset += number;
  return a;
}

Fact FactOnScalars(const FactCall& call) {
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

const FactRule* FindFactRule(std::string_view name) {
  static const auto* rules =
      new absl::flat_hash_map<std::string_view, FactRule>{
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
  auto found = rules->find(name);
  return found == rules->end() ? nullptr : &found->second;
}

}  // namespace asyra
