#include "passes/raise/raise_activation.h"

#include <cmath>

#include "passes/rewrite/match.h"
#include "passes/rewrite/rewriter.h"

namespace asyra {
namespace {

using NewOp = Rewriter::NewOp;

absl::StatusOr<ValueId> Unary(Rewriter& to, const NewOp& op,
                              std::string_view name, const Pattern& pattern) {
  Match match;
  if (!pattern.Matches(to, op, &match) || to.type(match[0]) != op.type) {
    return kNoValue;
  }
  return to.Add(name, {match[0]});
}

Pattern Tanh(const Pattern& x) { return Apply("tanh", {x}); }
Pattern Erf(const Pattern& x) { return Apply("erf", {x}); }
Pattern Sigmoid(const Pattern& x) { return Apply("sigmoid", {x}); }
Pattern Exp(const Pattern& x) { return Apply("exp", {x}); }
Pattern Neg(const Pattern& x) { return Apply("neg", {x}); }

absl::StatusOr<ValueId> FindGelu(Rewriter& to, const NewOp& op) {
  static const Pattern* pattern = new Pattern([] {
    const Pattern x = Var(0);
    return Number(0.5) * x * (Number(1) + Erf(x * Number(M_SQRT1_2)));
  }());
  return Unary(to, op, "gelu", *pattern);
}

absl::StatusOr<ValueId> FindGeluTanh(Rewriter& to, const NewOp& op) {
  static const Pattern* pattern = new Pattern([] {
    const Pattern x = Var(0), c = Number(0.044715);
    const Pattern root = Number(std::sqrt(2 / M_PI));
    const Pattern inner =
        Either({root * (x + c * Cube(x)), root * (x + c * x * x * x),
                root * x * (Number(1) + c * Square(x)),
                root * x * (Number(1) + c * x * x)});
    return Number(0.5) * x * (Number(1) + Tanh(inner));
  }());
  return Unary(to, op, "gelu_tanh", *pattern);
}

absl::StatusOr<ValueId> FindSilu(Rewriter& to, const NewOp& op) {
  static const Pattern* pattern = new Pattern([] {
    const Pattern x = Var(0);
    return Either({x * Sigmoid(x), x / (Number(1) + Exp(Neg(x)))});
  }());
  return Unary(to, op, "silu", *pattern);
}

absl::StatusOr<ValueId> FindQuickGelu(Rewriter& to, const NewOp& op) {
  static const Pattern* pattern = new Pattern([] {
    const Pattern x = Var(0);
    return x * Sigmoid(Number(1.702) * x);
  }());
  return Unary(to, op, "quick_gelu", *pattern);
}

// An activation times something of its shape.
absl::StatusOr<ValueId> FindGated(Rewriter& to, const NewOp& op) {
  struct Gated {
    std::string_view name;
    Pattern pattern;
  };
  static const auto* forms = [] {
    auto* list = new std::vector<Gated>;
    for (auto [activation, gated] : {std::pair("silu", "swiglu"),
                                     {"gelu", "geglu"},
                                     {"gelu_tanh", "geglu_tanh"},
                                     {"relu", "reglu"}}) {
      list->push_back({gated, Apply(activation, {Var(0)}) * Var(1)});
    }
    return list;
  }();
  if (op.arity() == 2 && op.in(0) == op.in(1)) return kNoValue;  // a square
  for (const Gated& form : *forms) {
    Match match;
    if (form.pattern.Matches(to, op, &match) && to.type(match[0]) == op.type &&
        to.type(match[1]) == op.type) {
      return to.Add(form.name, {match[0], match[1]});
    }
  }
  return kNoValue;
}

constexpr Rewriter::Rule kRules[] = {FindGelu, FindGeluTanh, FindSilu,
                                     FindQuickGelu, FindGated};

}  // namespace

absl::StatusOr<bool> RaiseActivation(Program& program, const PassOptions&,
                                     PassContext& context) {
  ASYRA_ASSIGN_OR_RETURN(bool changed, Rewrite(program, kRules));
  if (!changed) context.Remark("raise_activation: no decomposed activation");
  return changed;
}

}  // namespace asyra
