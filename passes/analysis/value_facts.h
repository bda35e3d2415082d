// Facts known at compile time about a value's elements, in a form whose size
// does not depend on the value's: enough to prove that an exported mask,
// computed from positions or stored as a table, is causal.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "ir/op_def.h"
#include "ir/program.h"

namespace asyra {

// offset + sum over dimensions of stride[d] * index[d]; the stride of a
// dimension of size 1 is 0.
struct Affine {
  double offset = 0;
  absl::InlinedVector<double, 4> strides;
  bool is_uniform() const;
  friend bool operator==(const Affine& a, const Affine& b) {
    return a.offset == b.offset && a.strides == b.strides;
  }
};

struct Fact {
  enum Kind {
    kUnknown,
    kAffine,     // elements are `affine`
    kPredicate,  // `yes` where every one of `all` is >= 0, `no` elsewhere
  } kind = kUnknown;
  Affine affine;
  std::vector<Affine> all;
  double yes = 1, no = 0;

  static Fact UniformOf(double number, int rank);
  bool IsUniform(double* number = nullptr) const;
  // Returns whether this is a predicate that holds at some indices only.
  bool IsMask(double yes_value, double no_value) const {
    return kind == kPredicate && yes == yes_value && no == no_value;
  }
};

// Smallest and largest value an affine takes over a shape.
struct Range {
  double low, high;
};
Range RangeOf(const Affine& affine, const Shape& shape);

// Recognises an affine value, or the mask of a diagonal band over the last two
// dimensions (causal, sliding window), in stored data; every element is checked
// until one does not fit.
Fact FactOfData(const Tensor& data);

// Facts of the values of one growing program, in the order they are defined.
class ValueFacts {
 public:
  // Derives the fact of the op's result from those of its operands.
  Fact Derive(const Op& op, absl::Span<const Type> operands,
              const Type& result);
  // Adds an input. `data` may be null; it is read when the fact is first asked
  // for. A float weight is not treated as uniform even if all its elements are
  // equal: other data may be loaded for it.
  void Add(ValueId value, const Tensor* data);
  void Add(ValueId value, Fact fact);
  const Fact& Of(ValueId value);

 private:
  struct Entry {
    Fact fact;
    const Tensor* unread = nullptr;
    const Tensor* data = nullptr;  // of an input, read or not
  };
  Fact OfStoredView(const Op& op, const Type& result);

  std::deque<Entry> entries_;  // by value
};

}  // namespace asyra
