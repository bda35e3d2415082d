#include "passes/rewrite/match.h"

#include <cmath>

namespace asyra {
namespace {

using Place = Pattern::Place;
using Next = absl::FunctionRef<bool()>;

Place At(const Rewriter& in, ValueId value) { return {value, in.Def(value)}; }

bool Bind(Match* match, int variable, ValueId value, Next next) {
  if (static_cast<int>(match->values.size()) <= variable) {
    match->values.resize(variable + 1, kNoValue);
  }
  if (match->values[variable] != kNoValue) {
    return match->values[variable] == value && next();
  }
  match->values[variable] = value;
  if (next()) return true;
  match->values[variable] = kNoValue;
  return false;
}

bool IsNear(double number, double want, DType dtype) {
  double tolerance = dtype == DType::kBF16  ? 4e-3
                     : dtype == DType::kF16 ? 1e-3
                                            : 1e-5;
  return std::abs(number - want) <= tolerance * std::abs(want);
}

class VarNode : public Pattern::Node {
 public:
  VarNode(int variable, bool uniform)
      : variable_(variable), uniform_(uniform) {}
  bool Try(Rewriter& in, Place at, Match* match, Next next) const override {
    if (at.value == kNoValue) return false;
    if (uniform_ && !in.Uniform(at.value, nullptr)) return false;
    return Bind(match, variable_, at.value, next);
  }

 private:
  int variable_;
  bool uniform_;
};

class NumberNode : public Pattern::Node {
 public:
  explicit NumberNode(double number) : number_(number) {}
  bool Try(Rewriter& in, Place at, Match*, Next next) const override {
    double number;
    return at.value != kNoValue && in.Uniform(at.value, &number) &&
           IsNear(number, number_, in.type(at.value).dtype) && next();
  }
  const double* number() const override { return &number_; }

 private:
  double number_;
};

class ApplyNode : public Pattern::Node {
 public:
  ApplyNode(std::string_view op, std::vector<Pattern> operands, OpTest test)
      : op_(op), operands_(std::move(operands)), test_(test) {}
  bool Try(Rewriter& in, Place at, Match* match, Next next) const override {
    if (at.op == nullptr || at.op->def->name != op_ ||
        at.op->operands.size() != operands_.size() ||
        (test_ != nullptr && !test_(in, *at.op))) {
      return false;
    }
    return TryFrom(0, in, *at.op, match, next);
  }

 private:
  bool TryFrom(size_t i, Rewriter& in, const Op& op, Match* match,
               Next next) const {
    if (i == operands_.size()) return next();
    return operands_[i].node().Try(in, At(in, op.operands[i]), match, [&] {
      return TryFrom(i + 1, in, op, match, next);
    });
  }

  std::string op_;
  std::vector<Pattern> operands_;
  OpTest test_;
};

class EitherNode : public Pattern::Node {
 public:
  explicit EitherNode(std::vector<Pattern> patterns)
      : patterns_(std::move(patterns)) {}
  bool Try(Rewriter& in, Place at, Match* match, Next next) const override {
    for (const Pattern& pattern : patterns_) {
      if (pattern.node().Try(in, at, match, next)) return true;
    }
    return false;
  }

 private:
  std::vector<Pattern> patterns_;
};

// A tree of `op` (mul or add) over the parts, in any order and nesting.
class ChainNode : public Pattern::Node {
 public:
  ChainNode(std::string_view op, std::vector<Pattern> parts)
      : op_(op), parts_(std::move(parts)) {}
  bool Try(Rewriter& in, Place at, Match* match, Next next) const override {
    return TrySet((1u << parts_.size()) - 1, in, at, match, next);
  }
  const std::vector<Pattern>* factors() const override {
    return op_ == "mul" ? &parts_ : nullptr;
  }
  const std::vector<Pattern>* terms() const override {
    return op_ == "add" ? &parts_ : nullptr;
  }

 private:
  // Matches the parts in `set` with the value.
  bool TrySet(unsigned set, Rewriter& in, Place at, Match* match,
              Next next) const {
    if ((set & (set - 1)) == 0) {
      return parts_[__builtin_ctz(set)].node().Try(in, at, match, next);
    }
    if (at.op == nullptr) return false;
    if (at.op->def->name == op_) {
      Place lhs = At(in, at.op->operands[0]), rhs = At(in, at.op->operands[1]);
      for (unsigned part = (set - 1) & set; part != 0;
           part = (part - 1) & set) {
        bool done = TrySet(part, in, lhs, match, [&] {
          return TrySet(set & ~part, in, rhs, match, next);
        });
        if (done) return true;
      }
    }
    return op_ == "mul" && TryDivision(set, in, at, match, next);
  }

  // x / 2 where x * 0.5 is meant.
  bool TryDivision(unsigned set, Rewriter& in, Place at, Match* match,
                   Next next) const {
    double divisor;
    if (at.op->def->name != "div" ||
        !in.Uniform(at.op->operands[1], &divisor) || divisor == 0) {
      return false;
    }
    for (size_t i = 0; i < parts_.size(); ++i) {
      const double* number = parts_[i].node().number();
      if ((set & (1u << i)) == 0 || number == nullptr ||
          !IsNear(1 / divisor, *number, in.type(at.op->operands[1]).dtype)) {
        continue;
      }
      if (TrySet(set & ~(1u << i), in, At(in, at.op->operands[0]), match,
                 next)) {
        return true;
      }
    }
    return false;
  }

  std::string op_;
  std::vector<Pattern> parts_;
};

Pattern Chain(std::string_view op, const Pattern& a, const Pattern& b,
              const std::vector<Pattern>* (Pattern::Node::*parts)() const) {
  std::vector<Pattern> all;
  for (const Pattern& side : {a, b}) {
    if (const std::vector<Pattern>* inner = (side.node().*parts)()) {
      all.insert(all.end(), inner->begin(), inner->end());
    } else {
      all.push_back(side);
    }
  }
  return Pattern(std::make_shared<ChainNode>(op, std::move(all)));
}

bool OverLastDimension(Rewriter& in, const Op& op) {
  int rank = in.type(op.operands[0]).rank();
  const Ints& dims = op.attrs.Get<Ints>("dims");
  return op.attrs.Bool("keep") && dims.size() == 1 &&
         NormalizeDim(dims[0], rank) == rank - 1;
}

// sum / size of the last dimension, in either spelling.
bool DividesByCount(Rewriter& in, const Op& op, bool divides) {
  for (int i : {0, 1}) {
    const Op* sum = in.Def(op.operands[i], "reduce_sum");
    double number;
    if (sum == nullptr || (divides && i == 1) ||
        !in.Uniform(op.operands[1 - i], &number)) {
      continue;
    }
    const Type& type = in.type(sum->operands[0]);
    auto count = static_cast<double>(type.size(type.rank() - 1));
    return IsNear(number, divides ? count : 1 / count, type.dtype);
  }
  return false;
}

}  // namespace

bool Pattern::Matches(Rewriter& in, const Rewriter::NewOp& op,
                      Match* match) const {
  match->values.clear();
  return node_->Try(in, {kNoValue, &op.op}, match, [] { return true; });
}

bool Pattern::Matches(Rewriter& in, ValueId value, Match* match) const {
  match->values.clear();
  return node_->Try(in, At(in, value), match, [] { return true; });
}

Pattern Var(int variable) {
  return Pattern(std::make_shared<VarNode>(variable, false));
}

Pattern Scalar(int variable) {
  return Pattern(std::make_shared<VarNode>(variable, true));
}

Pattern Number(double number) {
  return Pattern(std::make_shared<NumberNode>(number));
}

Pattern Apply(std::string_view op, std::vector<Pattern> operands, OpTest test) {
  return Pattern(std::make_shared<ApplyNode>(op, std::move(operands), test));
}

Pattern Either(std::vector<Pattern> patterns) {
  return Pattern(std::make_shared<EitherNode>(std::move(patterns)));
}

Pattern MaybeCast(const Pattern& pattern) {
  return Either({pattern, Apply("cast", {pattern})});
}

Pattern operator*(const Pattern& a, const Pattern& b) {
  return Chain("mul", a, b, &Pattern::Node::factors);
}

Pattern operator+(const Pattern& a, const Pattern& b) {
  return Chain("add", a, b, &Pattern::Node::terms);
}

Pattern operator-(const Pattern& a, const Pattern& b) {
  return Apply("sub", {a, b});
}

Pattern operator/(const Pattern& a, const Pattern& b) {
  return Apply("div", {a, b});
}

Pattern Square(const Pattern& x) {
  return Either({Apply("mul", {x, x}), Apply("pow", {x, Number(2)})});
}

Pattern Cube(const Pattern& x) {
  return Either({Apply("pow", {x, Number(3)}), x * x * x,
                 Apply("mul", {x, Square(x)}), Apply("mul", {Square(x), x})});
}

Pattern Sqrt(const Pattern& x) {
  return Either({Apply("sqrt", {x}), Apply("pow", {x, Number(0.5)})});
}

Pattern Rsqrt(const Pattern& x) {
  return Either({Apply("rsqrt", {x}), Apply("reciprocal", {Sqrt(x)}),
                 Apply("div", {Number(1), Sqrt(x)}),
                 Apply("pow", {x, Number(-0.5)})});
}

Pattern Mean(const Pattern& x) {
  Pattern sum = Apply("reduce_sum", {x}, OverLastDimension);
  Pattern any = Scalar(15);  // checked by DividesByCount
  return Either({Apply("reduce_mean", {x}, OverLastDimension),
                 Apply("div", {sum, any},
                       [](Rewriter& in, const Op& op) {
                         return DividesByCount(in, op, true);
                       }),
                 Apply("mul", {sum, any},
                       [](Rewriter& in, const Op& op) {
                         return DividesByCount(in, op, false);
                       }),
                 Apply("mul", {any, sum}, [](Rewriter& in, const Op& op) {
                   return DividesByCount(in, op, false);
                 })});
}

}  // namespace asyra
