#include "passes/rewrite/value_range.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "passes/analysis/op_shape.h"

namespace asyra {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kParameter = 1e4;
constexpr int kMaxDepth = 40;  // ops behind one another that are looked at
constexpr Range kAny = {-kInfinity, kInfinity};

// 0 times infinity is 0: a bound that does not exist is not reached.
double Times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

Range Sum(const Range& a, const Range& b) {
  return {a.low + b.low, a.high + b.high};
}

Range Product(const Range& a, const Range& b) {
  auto [low, high] = std::minmax({Times(a.low, b.low), Times(a.low, b.high),
                                  Times(a.high, b.low), Times(a.high, b.high)});
  return {low, high};
}

Range Union(const Range& a, const Range& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

Range OfData(const Tensor& data) {
  Range range = {kInfinity, -kInfinity};
  for (int64_t i = 0; i < data.num_elements(); ++i) {
    double x = data.Get(i);
    if (!std::isnan(x)) range = Union(range, {x, x});
  }
  return range.low <= range.high ? range : kAny;
}

class Bounds {
 public:
  explicit Bounds(Rewriter& in) : in_(in) {}

  Range Of(ValueId value, int depth = 0) {
    if (in_.type(value).num_elements() == 0 || depth > kMaxDepth) return kAny;
    auto [known, is_new] = known_.try_emplace(value, kAny);
    if (!is_new) return known->second;
    Range range = Find(value, depth);
    known_[value] = range;
    return range;
  }

 private:
  Range Find(ValueId value, int depth) {
    const Fact& fact = in_.fact(value);
    const Type& type = in_.type(value);
    if (fact.kind == Fact::kAffine) return RangeOf(fact.affine, type.shape());
    if (fact.kind == Fact::kPredicate) {
      return Union({fact.yes, fact.yes}, {fact.no, fact.no});
    }
    if (type.dtype == DType::kBool) return {0, 1};
    if (const Tensor* data = in_.Data(value)) return OfData(*data);
    const Op* op = in_.Def(value);
    if (op != nullptr) return OfOp(*op, depth + 1);
    bool parameter = in_.is_weight(value) && IsFloat(type.dtype);
    return parameter ? Range{-kParameter, kParameter} : kAny;
  }

  Range OfOp(const Op& op, int depth) {
    std::string_view name = op.def->name;
    auto is_one_of = [&](std::initializer_list<std::string_view> names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (is_one_of({"softmax", "sigmoid"})) return {0, 1};
    if (is_one_of({"tanh", "sin", "cos", "erf"})) return {-1, 1};
    if (op.operands.empty()) return kAny;
    Range a = Of(op.operands[0], depth);
    // The same elements in other places, some of them or their means.
    if (is_one_of({"reshape", "transpose", "broadcast", "slice", "gather",
                   "gather_elements", "gather_nd", "embedding", "reduce_max",
                   "reduce_min", "reduce_mean", "cast"})) {
      bool to_integer = name == "cast" && !IsFloat(op.attrs.Get<DType>("to")) &&
                        !(a.low >= -kParameter && a.high <= kParameter);
      return to_integer ? kAny : a;
    }
    if (name == "neg") return {-a.high, -a.low};
    if (name == "exp") return {0, std::exp(a.high)};
    if (name == "sqrt") return {0, a.high > 0 ? std::sqrt(a.high) : 0};
    if (is_one_of({"abs", "relu"})) {
      double high = name == "abs" ? std::max(-a.low, a.high) : a.high;
      return {0, std::max(high, 0.0)};
    }
    if (name == "reduce_sum") {
      return {a.low >= 0 ? 0 : -kInfinity, a.high <= 0 ? 0 : kInfinity};
    }
    if (name == "concat") {
      for (ValueId operand : op.operands) a = Union(a, Of(operand, depth));
      return a;
    }
    if (name == "select") {
      return Union(Of(op.operands[1], depth), Of(op.operands[2], depth));
    }
    return op.operands.size() == 2 ? OfBinary(op, a, depth) : kAny;
  }

  Range OfBinary(const Op& op, const Range& a, int depth) {
    std::string_view name = op.def->name;
    Range b = Of(op.operands[1], depth);
    // Integers wrap around where floats become infinite.
    bool wraps = !IsFloat(in_.type(op.operands[0]).dtype);
    if (name == "max")
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    if (name == "min")
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    if (name == "mul" && op.operands[0] == op.operands[1] && !wraps) {
      return {0, std::max(a.low * a.low, a.high * a.high)};
    }
    Range range = kAny;
    if (name == "add") range = Sum(a, b);
    if (name == "sub") range = Sum(a, {-b.high, -b.low});
    if (name == "mul") range = Product(a, b);
    if (name == "div" && b.low > 0) {
      range = Product(a, {1 / b.high, 1 / b.low});
    }
    constexpr double kNoWrap = 1e9;  // within 32 bits
    return wraps && !(range.low >= -kNoWrap && range.high <= kNoWrap) ? kAny
                                                                      : range;
  }

  Rewriter& in_;
  absl::flat_hash_map<ValueId, Range> known_;
};

}  // namespace

Range BoundsOf(Rewriter& in, ValueId value) { return Bounds(in).Of(value); }

}  // namespace asyra
