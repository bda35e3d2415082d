// Rules by which each op passes facts on, from its operands to its result.
#pragma once

#include <cmath>
#include <vector>

#include "passes/analysis/value_facts.h"

namespace asyra {

// A use of an op whose operands' facts are known; for elementwise ops they
// have the result's rank.
struct FactCall {
  const Op& op;
  absl::Span<const Type> types;
  const Type& result;
  std::vector<Fact> facts;
};

struct FactRule {
  Fact (*derive)(const FactCall& call) = nullptr;
  int operands = -1;  // how many must be known; -1: all
};

// Returns the rule of that op, or null.
const FactRule* FindFactRule(std::string_view op);

// Derives the fact of any elementwise op whose operands are all uniform, or
// split by one and the same predicate, by running the op on one element a side.
Fact FactOnScalars(const FactCall& call);

inline bool IsWhole(double value) { return value == std::trunc(value); }
Affine Negated(Affine affine);
Affine Plus(Affine affine, double number);
// Returns the fact right-aligned into more dimensions, as broadcasting does.
Fact WithRank(const Fact& fact, int rank);

// Applies `change` to every list of strides of the fact; offsets stay.
template <typename F>
Fact MapAffines(Fact fact, F change) {
  if (fact.kind == Fact::kAffine) change(fact.affine);
  for (Affine& affine : fact.all) change(affine);
  return fact;
}

}  // namespace asyra
