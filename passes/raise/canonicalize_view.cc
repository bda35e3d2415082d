// Views of views.
#include <numeric>

#include "passes/analysis/op_shape.h"
#include "passes/raise/canonicalize_rules.h"

namespace asyra {
namespace {

using NewOp = Rewriter::NewOp;

// The transpose that a reshape between shapes of equal rank is when it only
// moves dimensions of size 1; empty when it is more.
Ints MovedOnes(const Shape& from, const Shape& to) {
  if (from.size() != to.size()) return {};
  Ints perm(to.size(), -1);
  size_t next = 0, one = 0;  // of `from`: not of size 1, of size 1
  for (size_t i = 0; i < to.size(); ++i) {
    size_t& at = to[i] == 1 ? one : next;
    while (at < from.size() && (from[at] == 1) != (to[i] == 1)) ++at;
    if (at == from.size() || from[at] != to[i]) return {};
    perm[i] = static_cast<int64_t>(at++);
  }
  return perm;
}

absl::StatusOr<ValueId> OfTranspose(Rewriter& to, const NewOp& op) {
  ValueId source = op.in(0);
  Ints perm = op.op.attrs.Get<Ints>("perm");
  if (const Op* reshape = to.Def(source, "reshape")) {
    Ints first = MovedOnes(to.type(reshape->operands[0]).shape(),
                           to.type(source).shape());
    if (!first.empty()) {
      for (int64_t& i : perm) i = first[i];
      return to.Transpose(reshape->operands[0], perm);
    }
  }
  if (const Op* inner = to.Def(source, "transpose")) {
    const Ints& first = inner->attrs.Get<Ints>("perm");
    for (int64_t& i : perm) i = first[i];
    return to.Transpose(inner->operands[0], perm);
  }
  if (const Op* broadcast = to.Def(source, "broadcast")) {
    Shape shape = to.type(broadcast->operands[0]).shape();
    shape.insert(shape.begin(), perm.size() - shape.size(), 1);
    ASYRA_ASSIGN_OR_RETURN(ValueId small,
                           to.Reshape(broadcast->operands[0], shape));
    ASYRA_ASSIGN_OR_RETURN(small, to.Transpose(small, perm));
    Shape whole = op.type.shape();
    return to.Add("broadcast", {small},
                  {{"shape", Ints(whole.begin(), whole.end())}});
  }
  // Order of the dimensions that are not of size 1.
  int64_t last = -1;
  for (int64_t i : perm) {
    if (to.type(source).size(static_cast<int>(i)) == 1) continue;
    if (i < last) return kNoValue;
    last = i;
  }
  return to.Reshape(source, op.type.shape());
}

absl::StatusOr<ValueId> OfBroadcast(Rewriter& to, const NewOp& op) {
  ValueId source = op.in(0);
  if (const Op* inner = to.Def(source, "broadcast")) {
    return to.Add("broadcast", {inner->operands[0]}, op.op.attrs);
  }
  if (to.type(source).num_elements() == op.type.num_elements()) {
    return to.Reshape(source, op.type.shape());
  }
  return kNoValue;
}

absl::StatusOr<ValueId> SliceOf(Rewriter& to, ValueId source, int dim,
                                int64_t start, int64_t stop, int64_t step) {
  return to.Add("slice", {source},
                {{"dim", static_cast<int64_t>(dim)},
                 {"start", start},
                 {"stop", stop},
                 {"step", step}});
}

absl::StatusOr<ValueId> BroadcastTo(Rewriter& to, ValueId value,
                                    const Type& type) {
  if (to.type(value) == type) return value;
  Shape shape = type.shape();
  return to.Add("broadcast", {value},
                {{"shape", Ints(shape.begin(), shape.end())}});
}

absl::StatusOr<ValueId> SliceOfBroadcast(Rewriter& to, const NewOp& op,
                                         int dim) {
  ValueId source = to.Def(op.in(0))->operands[0];
  int own = dim - op.type.rank() + to.type(source).rank();
  if (own >= 0 && to.type(source).size(own) > 1) {
    ASYRA_ASSIGN_OR_RETURN(source,
                           SliceOf(to, source, own, op.op.attrs.Int("start"),
                                   op.op.attrs.Int("stop"), 1));
  }
  return BroadcastTo(to, source, op.type);
}

// All operands broadcast from shapes that are equal where they are joined.
absl::StatusOr<ValueId> ConcatOfBroadcasts(Rewriter& to, const NewOp& op) {
  int dim = NormalizeDim(op.op.attrs.Int("dim"), op.type.rank());
  std::vector<ValueId> operands;
  for (ValueId value : op.op.operands) {
    const Op* broadcast = to.Def(value, "broadcast");
    if (broadcast == nullptr) return kNoValue;
    operands.push_back(broadcast->operands[0]);
  }
  Shape first = to.type(operands[0]).shape();
  int own = dim - op.type.rank() + static_cast<int>(first.size());
  if (own < 0) return kNoValue;
  for (size_t i = 0; i < operands.size(); ++i) {
    Shape shape = to.type(operands[i]).shape();
    // Joined whole, and else of one shape.
    if (shape.size() != first.size() ||
        shape[own] != to.type(op.in(static_cast<int>(i))).size(dim)) {
      return kNoValue;
    }
    shape[own] = first[own];
    if (shape != first) return kNoValue;
  }
  ASYRA_ASSIGN_OR_RETURN(ValueId value,
                         to.Add("concat", operands, {{"dim", int64_t{own}}}));
  return BroadcastTo(to, value, op.type);
}

// The part of a concat that a slice falls into; a slice of a slice as one.
absl::StatusOr<ValueId> OfSlice(Rewriter& to, const NewOp& op) {
  const AttrMap& attrs = op.op.attrs;
  int64_t start = attrs.Int("start"), stop = attrs.Int("stop");
  int dim = NormalizeDim(attrs.Int("dim"), op.type.rank());
  if (attrs.Int("step") != 1) return kNoValue;
  if (const Op* inner = to.Def(op.in(0), "slice")) {
    bool same = NormalizeDim(inner->attrs.Int("dim"), op.type.rank()) == dim;
    if (!same || inner->attrs.Int("step") != 1) return kNoValue;
    int64_t shift = inner->attrs.Int("start");
    return SliceOf(to, inner->operands[0], dim, start + shift, stop + shift, 1);
  }
  if (to.Def(op.in(0), "broadcast") != nullptr) {
    return SliceOfBroadcast(to, op, dim);
  }
  const Op* concat = to.Def(op.in(0), "concat");
  if (concat == nullptr ||
      NormalizeDim(concat->attrs.Int("dim"), op.type.rank()) != dim) {
    return kNoValue;
  }
  int64_t begin = 0;
  for (ValueId part : concat->operands) {
    int64_t end = begin + to.type(part).size(dim);
    if (start >= begin && stop <= end) {
      return SliceOf(to, part, dim, start - begin, stop - begin, 1);
    }
    begin = end;
  }
  return kNoValue;
}

// Most elementwise ops broadcast by themselves; where all operands are
// broadcast, the op is done on the smaller ones.
absl::StatusOr<ValueId> DropBroadcasts(Rewriter& to, const NewOp& op) {
  Op direct = op.op;
  std::vector<Type> types;
  bool any = false;
  for (ValueId& value : direct.operands) {
    if (const Op* broadcast = to.Def(value, "broadcast")) {
      value = broadcast->operands[0];
      any = true;
    }
    types.push_back(to.type(value));
  }
  if (!any) return kNoValue;
  absl::StatusOr<std::vector<Type>> small =
      InferTypes(*direct.def, direct.attrs, types, Mesh());
  // An update takes a gradient of the parameter's shape alone.
  if (!small.ok()) return kNoValue;
  ASYRA_ASSIGN_OR_RETURN(
      ValueId value, to.Add(direct.def->name, direct.operands, direct.attrs));
  if ((*small)[0] == op.type) return value;
  Shape shape = op.type.shape();
  return to.Add("broadcast", {value},
                {{"shape", Ints(shape.begin(), shape.end())}});
}

// Elementwise ops behind which a reduced dimension is looked for, at most.
constexpr int kMaxChain = 8;

// `value`, a reduction that drops its dimensions or a function of one, with
// these kept: of shape `shape`. kNoValue if it is not that.
absl::StatusOr<ValueId> WithReducedKept(Rewriter& to, ValueId value,
                                        const Shape& shape, int depth = 0) {
  const Op* op = to.Def(value);
  if (op == nullptr || depth > kMaxChain) return kNoValue;
  if (op->attrs.Find("keep") != nullptr && op->attrs.Find("dims") != nullptr) {
    if (op->attrs.Bool("keep")) return kNoValue;
    AttrMap attrs = op->attrs;
    attrs.Set("keep", true);
    Shape kept = to.type(op->operands[0]).shape();
    for (int64_t dim : attrs.Get<Ints>("dims")) {
      kept[NormalizeDim(dim, static_cast<int>(kept.size()))] = 1;
    }
    if (kept != shape) return kNoValue;
    return to.Add(op->def->name, op->operands, attrs);
  }
  if (!IsElementwise(*op->def)) return kNoValue;
  std::vector<ValueId> operands;
  bool any = false;
  for (ValueId operand : op->operands) {
    if (to.type(operand).rank() > 0) {
      if (any) return kNoValue;
      any = true;
      ASYRA_ASSIGN_OR_RETURN(operand,
                             WithReducedKept(to, operand, shape, depth + 1));
      if (operand == kNoValue) return kNoValue;
    }
    operands.push_back(operand);
  }
  if (!any) return kNoValue;
  return to.Add(op->def->name, operands, op->attrs);
}

absl::StatusOr<ValueId> OfReshape(Rewriter& to, const NewOp& op) {
  if (const Op* inner = to.Def(op.in(0), "reshape")) {
    return to.Reshape(inner->operands[0], op.type.shape());
  }
  if (op.type.rank() <= to.type(op.in(0)).rank()) return kNoValue;
  return WithReducedKept(to, op.in(0), op.type.shape());
}

}  // namespace

absl::StatusOr<ValueId> MergeViews(Rewriter& to, const NewOp& op) {
  if (op.is("reshape")) return OfReshape(to, op);
  if (op.is("transpose")) return OfTranspose(to, op);
  if (op.is("broadcast")) return OfBroadcast(to, op);
  if (op.is("slice")) return OfSlice(to, op);
  if (op.is("concat")) return ConcatOfBroadcasts(to, op);
  if (op.arity() > 0 && IsElementwise(*op.op.def)) {
    return DropBroadcasts(to, op);
  }
  return kNoValue;
}

}  // namespace asyra
