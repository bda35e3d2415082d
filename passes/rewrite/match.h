// Patterns over the ops of a program being rewritten, written like formulas:
//
//   const Pattern x = Var(0), eps = Scalar(1);
//   const Pattern rms = x * Rsqrt(Mean(Square(x)) + eps);
//
// Sums and products match in any order and nesting; a variable that occurs
// twice must be the same value. Matching backtracks over all possibilities.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "passes/rewrite/rewriter.h"

namespace asyra {

// The value of each variable, by its number.
struct Match {
  absl::InlinedVector<ValueId, 4> values;
  ValueId operator[](int variable) const { return values[variable]; }
};

class Pattern {
 public:
  // The subject of a match: a value, or (value kNoValue) an op not yet added.
  struct Place {
    ValueId value = kNoValue;
    const Op* op = nullptr;  // null for inputs
  };
  class Node {
   public:
    virtual ~Node() = default;
    // Calls `next` after each way to match, until it returns true.
    virtual bool Try(Rewriter& in, Place at, Match* match,
                     absl::FunctionRef<bool()> next) const = 0;
    // Returns the scalar of a Scalar pattern; null if it is none.
    virtual const double* number() const { return nullptr; }
    // Returns the factors (summands) of a product (sum); null if it is none.
    virtual const std::vector<Pattern>* factors() const { return nullptr; }
    virtual const std::vector<Pattern>* terms() const { return nullptr; }
  };

  explicit Pattern(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  const Node& node() const { return *node_; }

  // Returns whether the op about to be added matches, and sets `match` to the
  // values of the variables.
  bool Matches(Rewriter& in, const Rewriter::NewOp& op, Match* match) const;
  bool Matches(Rewriter& in, ValueId value, Match* match) const;

 private:
  std::shared_ptr<const Node> node_;
};

using OpTest = bool (*)(Rewriter& in, const Op& op);

Pattern Var(int variable);
// Matches a value all of whose elements are known to be one scalar.
Pattern Scalar(int variable);
// Matches that scalar, to the precision of the element type.
Pattern Number(double number);
Pattern Apply(std::string_view op, std::vector<Pattern> operands,
              OpTest test = nullptr);
Pattern Either(std::vector<Pattern> patterns);
// Matches the pattern, or a cast of it.
Pattern MaybeCast(const Pattern& pattern);

Pattern operator*(const Pattern& a, const Pattern& b);
Pattern operator+(const Pattern& a, const Pattern& b);
Pattern operator-(const Pattern& a, const Pattern& b);
Pattern operator/(const Pattern& a, const Pattern& b);

// Spellings of a function.
Pattern Square(const Pattern& x);
Pattern Cube(const Pattern& x);
Pattern Sqrt(const Pattern& x);
Pattern Rsqrt(const Pattern& x);
// Matches a mean over the last dimension, which is kept.
Pattern Mean(const Pattern& x);

}  // namespace asyra
