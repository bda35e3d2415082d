// Folding, identities and spellings.
#include <cmath>

#include "ir/interpreter.h"
#include "passes/analysis/op_shape.h"
#include "passes/raise/canonicalize_rules.h"
#include "passes/rewrite/value_range.h"

namespace asyra {
namespace {

using NewOp = Rewriter::NewOp;

constexpr int64_t kMaxFoldedElements = 4096;
// Elements up to which a constant may be larger than what it is computed from.
constexpr int64_t kMaxGrownElements = 64;

absl::StatusOr<ValueId> Splat(Rewriter& to, const Type& type, double number) {
  Shape shape = type.shape();
  if (type.num_elements() == 1) {
    return to.Constant(Tensor::FromDoubles(type.dtype, shape, {number}));
  }
  ValueId scalar = to.Constant(Tensor::FromDoubles(type.dtype, {}, {number}));
  return to.Add("broadcast", {scalar},
                {{"shape", Ints(shape.begin(), shape.end())}});
}

// The neutral element: x op `number` is x.
bool Neutral(std::string_view name, double* number) {
  *number = 0;
  if (name == "add" || name == "sub" || name == "or") return true;
  *number = 1;
  return name == "mul" || name == "div" || name == "and" || name == "pow";
}

bool Commutes(std::string_view name) {
  return name == "add" || name == "mul" || name == "and" || name == "or";
}

// A cast that loses nothing, so that a cast back gives the same.
bool IsWidening(DType from, DType to) {
  auto rank = [](DType dtype) {
    switch (dtype) {
      case DType::kF16:
      case DType::kBF16:
      case DType::kI32:
        return 1;
      case DType::kF32:
        return 2;
      case DType::kI64:
      case DType::kF64:
        return 3;
      case DType::kBool:
        return 0;
    }
    return 0;
  };
  bool same_kind = IsFloat(from) == IsFloat(to) || from == DType::kBool;
  return from == to || (same_kind && rank(from) < rank(to));
}

absl::StatusOr<ValueId> Selected(Rewriter& to, const NewOp& op) {
  double condition;
  ValueId kept = kNoValue;
  if (op.in(1) == op.in(2)) kept = op.in(1);
  if (to.Uniform(op.in(0), &condition)) kept = op.in(condition != 0 ? 1 : 2);
  if (kept == kNoValue || to.type(kept) == op.type) return kept;
  Shape shape = op.type.shape();
  return to.Add("broadcast", {kept},
                {{"shape", Ints(shape.begin(), shape.end())}});
}

// A concat without operands of no elements.
absl::StatusOr<ValueId> WithoutEmpty(Rewriter& to, const NewOp& op) {
  std::vector<ValueId> operands;
  for (ValueId value : op.op.operands) {
    if (to.type(value).num_elements() > 0) operands.push_back(value);
  }
  if (operands.size() == 1) return operands[0];
  if (operands.empty() || operands.size() == op.op.operands.size()) {
    return kNoValue;
  }
  return to.Add("concat", operands, op.op.attrs);
}

// Dimensions counted from the end become counted from the front.
AttrMap FromFront(const AttrMap& attrs, int rank) {
  AttrMap result = attrs;
  for (const auto& [name, value] : attrs) {
    if (name == "dim" && std::get<int64_t>(value) < 0) {
      result.Set(name, std::get<int64_t>(value) + rank);
    }
    if (name != "dims" && name != "perm") continue;
    Ints dims = std::get<Ints>(value);
    for (int64_t& dim : dims) dim += dim < 0 ? rank : 0;
    result.Set(name, dims);
  }
  return result;
}

}  // namespace

absl::StatusOr<ValueId> FoldConstants(Rewriter& to, const NewOp& op) {
  double number;
  bool spelled = op.is("constant") || op.is("iota") ||
                 (op.is("broadcast") && to.Def(op.in(0), "constant"));
  if (!op.op.def->is_pure || op.type.num_elements() == 0) return kNoValue;
  if (!spelled && op.fact.IsUniform(&number)) {
    return Splat(to, op.type, number);
  }
  if (op.arity() == 0 || op.type.num_elements() > kMaxFoldedElements) {
    return kNoValue;
  }
  std::vector<Tensor> operands;
  int64_t elements = kMaxGrownElements;
  for (ValueId value : op.op.operands) {
    const Op* constant = to.Def(value, "constant");
    if (constant == nullptr) return kNoValue;
    operands.push_back(constant->attrs.Get<Tensor>("value"));
    elements = std::max(elements, operands.back().num_elements());
  }
  bool splat = op.is("broadcast") && operands[0].num_elements() == 1;
  if (splat || op.type.num_elements() > elements) return kNoValue;
  // An op that cannot be evaluated (an index out of range) is kept and fails at
  // run time.
  auto results = Evaluate(*op.op.def, op.op.attrs, operands);
  return results.ok() ? to.Constant((*results)[0]) : kNoValue;
}

absl::StatusOr<ValueId> RemoveIdentity(Rewriter& to, const NewOp& op) {
  if (op.is("select")) return Selected(to, op);
  if (op.arity() == 0) return kNoValue;
  bool same_type = to.type(op.in(0)) == op.type;
  if (op.is("reshape") || op.is("broadcast") || op.is("cast")) {
    if (same_type) return op.in(0);
  }
  if (op.is("slice") && same_type && op.op.attrs.Int("step") == 1) {
    return op.in(0);
  }
  if (op.is("concat")) return WithoutEmpty(to, op);
  if (op.is("not") || op.is("neg")) {
    const Op* inner = to.Def(op.in(0), op.op.def->name);
    return inner == nullptr ? kNoValue : inner->operands[0];
  }
  double neutral, number;
  if (op.arity() != 2 || !Neutral(op.op.def->name, &neutral)) return kNoValue;
  for (int i : {1, 0}) {
    if (i == 0 && !Commutes(op.op.def->name)) break;
    if (to.Uniform(op.in(i), &number) && number == neutral &&
        to.type(op.in(1 - i)) == op.type) {
      return op.in(1 - i);
    }
  }
  return kNoValue;
}

absl::StatusOr<ValueId> Respell(Rewriter& to, const NewOp& op) {
  double number;
  if (op.arity() > 0) {
    // one_hot's is one of the result, which has one more.
    int rank = to.type(op.in(0)).rank() + (op.is("one_hot") ? 1 : 0);
    AttrMap attrs = FromFront(op.op.attrs, rank);
    if (!(attrs == op.op.attrs)) {
      return to.Add(op.op.def->name, op.op.operands, attrs);
    }
  }
  if (op.is("pow") && to.Uniform(op.in(1), &number) &&
      to.type(op.in(0)) == op.type && IsFloat(op.type.dtype)) {
    if (number == 2) return to.Add("mul", {op.in(0), op.in(0)});
    // A power of -inf or -0 is positive, a root is not.
    bool is_root = std::abs(number) == 0.5 && BoundsOf(to, op.in(0)).low >= 0;
    if (is_root) return to.Add(number > 0 ? "sqrt" : "rsqrt", {op.in(0)});
    if (number == -1) return to.Add("reciprocal", {op.in(0)});
  }
  if (op.is("reciprocal")) {
    if (const Op* root = to.Def(op.in(0), "sqrt")) {
      return to.Add("rsqrt", {root->operands[0]});
    }
  }
  if (op.is("div") && to.Uniform(op.in(0), &number) && number == 1 &&
      to.type(op.in(1)) == op.type && IsFloat(op.type.dtype)) {
    return to.Add("reciprocal", {op.in(1)});
  }
  if (op.is("cast")) {
    const Op* first = to.Def(op.in(0), "cast");
    if (first != nullptr && IsWidening(to.type(first->operands[0]).dtype,
                                       to.type(op.in(0)).dtype)) {
      return to.Add("cast", {first->operands[0]}, op.op.attrs);
    }
  }
  return kNoValue;
}

}  // namespace asyra
