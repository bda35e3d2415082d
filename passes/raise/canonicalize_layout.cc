// Moves reshapes to where they cancel.
#include <algorithm>

#include "passes/analysis/op_shape.h"
#include "passes/raise/canonicalize_rules.h"

namespace asyra {
namespace {

using NewOp = Rewriter::NewOp;

// A value that is a reshape merging dimensions of `source`.
struct Merge {
  ValueId source = kNoValue;
  Shape from, to;
  std::vector<int> begins;

  explicit operator bool() const { return !begins.empty(); }
  int group_size(int dim) const { return begins[dim + 1] - begins[dim]; }
  bool is_single(int dim) const { return begins[dim + 1] - begins[dim] == 1; }
};

// Returns whether only dimensions of size 1 that are not the leading ones are
// merged. Ops are better off without them.
bool DropsInnerOnes(const Merge& merge) {
  for (size_t dim = 0; dim + 1 < merge.begins.size(); ++dim) {
    if (merge.is_single(static_cast<int>(dim))) continue;
    auto begin = merge.from.begin() + merge.begins[dim];
    auto end = merge.from.begin() + merge.begins[dim + 1];
    if (dim == 0 || end - begin - std::count(begin, end, 1) > 1) return false;
  }
  return true;
}

Merge FindMerge(const Rewriter& to, ValueId value) {
  Merge merge;
  const Op* reshape = to.Def(value, "reshape");
  if (reshape == nullptr) return merge;
  merge.source = reshape->operands[0];
  merge.from = to.type(merge.source).shape();
  merge.to = to.type(value).shape();
  merge.begins = MergeGroups(merge.from, merge.to);
  if (DropsInnerOnes(merge)) merge.begins.clear();
  return merge;
}

// The same merge of all dimensions but the last; the parts of the last are
// merged by a reshape of its own. No merge if no other dimension was merged.
absl::StatusOr<Merge> WithLastSingle(Rewriter& to, Merge merge) {
  int last = static_cast<int>(merge.to.size()) - 1;
  if (!merge || merge.is_single(last)) return merge;
  Shape shape(merge.from.begin(), merge.from.begin() + merge.begins[last]);
  shape.push_back(merge.to[last]);
  if (shape.size() == merge.to.size()) return Merge();
  ASYRA_ASSIGN_OR_RETURN(merge.source, to.Reshape(merge.source, shape));
  merge.from = shape;
  merge.begins[last + 1] = static_cast<int>(shape.size());
  return merge;
}

// The shape of an operand of shape `shape` that fits the merge's source instead
// of its result, both right aligned; false: no change. If an operand has a
// merged dimension itself, only the leading one is split (batches and heads),
// and only for operands smaller than the result: a view of a bias is cheap,
// views of whole activations accumulate.
bool SplitLike(const Merge& merge, const Shape& shape, Shape* split) {
  split->clear();
  size_t offset = merge.to.size() - shape.size();
  bool small = NumElements(shape) < NumElements(merge.to);
  for (size_t i = 0; i < shape.size(); ++i) {
    int dim = static_cast<int>(offset + i);
    if (shape[i] == 1) {
      split->insert(split->end(), merge.group_size(dim), 1);
    } else if (merge.is_single(dim)) {
      split->push_back(shape[i]);
    } else if (small && dim == 0) {
      split->insert(split->end(), merge.from.begin() + merge.begins[dim],
                    merge.from.begin() + merge.begins[dim + 1]);
    } else {
      return false;
    }
  }
  return true;
}

// A value that is a reshape adding dimensions of size 1: for each dimension,
// the one of the source or -1. Empty if it is not that.
std::vector<int> AddedOnes(const Rewriter& to, ValueId value) {
  const Op* reshape = to.Def(value, "reshape");
  if (reshape == nullptr) return {};
  Shape from = to.type(reshape->operands[0]).shape();
  Shape shape = to.type(value).shape();
  if (from.size() >= shape.size()) return {};
  std::vector<int> source;
  size_t next = 0;
  for (int64_t size : shape) {
    bool same = next < from.size() && from[next] == size;
    if (!same && size != 1) return {};
    source.push_back(same ? static_cast<int>(next++) : -1);
  }
  return next == from.size() ? source : std::vector<int>();
}

// x with ones added, combined with single numbers.
absl::StatusOr<ValueId> OnesBelowElementwise(Rewriter& to, const NewOp& op) {
  std::vector<ValueId> operands;
  bool any = false;
  for (ValueId value : op.op.operands) {
    bool number = to.type(value).num_elements() == 1;
    if (!number && (any || AddedOnes(to, value).empty())) return kNoValue;
    any |= !number;
    operands.push_back(number ? value : to.Def(value)->operands[0]);
  }
  if (!any) return kNoValue;
  for (ValueId& value : operands) {
    if (to.type(value).num_elements() == 1) {
      ASYRA_ASSIGN_OR_RETURN(value, to.Reshape(value, {}));
    }
  }
  ASYRA_ASSIGN_OR_RETURN(ValueId below,
                         to.Add(op.op.def->name, operands, op.op.attrs));
  return to.Reshape(below, op.type.shape());
}

absl::StatusOr<ValueId> BelowElementwise(Rewriter& to, const NewOp& op) {
  Merge merge;
  for (ValueId value : op.op.operands) {
    merge = FindMerge(to, value);
    if (merge && merge.to == op.type.shape()) break;
    merge = Merge();
  }
  if (!merge) return OnesBelowElementwise(to, op);
  std::vector<ValueId> operands;
  std::vector<Shape> shapes;
  for (ValueId value : op.op.operands) {
    Merge other = FindMerge(to, value);
    Shape shape = to.type(value).shape();
    if (other && other.from == merge.from && other.to == merge.to) {
      operands.push_back(other.source);
      shapes.push_back(merge.from);
    } else {
      Shape split;
      if (!SplitLike(merge, shape, &split)) return kNoValue;
      operands.push_back(value);
      shapes.push_back(split);
    }
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(operands[i], to.Reshape(operands[i], shapes[i]));
  }
  ASYRA_ASSIGN_OR_RETURN(ValueId below,
                         to.Add(op.op.def->name, operands, op.op.attrs));
  return to.Reshape(below, op.type.shape());
}

// Ops on whole rows: rms_norm, and softmax over the last dimension.
absl::StatusOr<ValueId> BelowRows(Rewriter& to, const NewOp& op) {
  ASYRA_ASSIGN_OR_RETURN(Merge merge,
                         WithLastSingle(to, FindMerge(to, op.in(0))));
  if (!merge) return kNoValue;
  AttrMap attrs = op.op.attrs;
  if (op.is("softmax")) {
    if (NormalizeDim(attrs.Int("dim"), op.type.rank()) != op.type.rank() - 1) {
      return kNoValue;
    }
    attrs.Set("dim", static_cast<int64_t>(merge.from.size()) - 1);
  }
  std::vector<ValueId> operands(op.op.operands.begin(), op.op.operands.end());
  operands[0] = merge.source;
  ASYRA_ASSIGN_OR_RETURN(ValueId below,
                         to.Add(op.op.def->name, operands, attrs));
  return to.Reshape(below, op.type.shape());
}

// Rows that were given dimensions of size 1, times a matrix.
absl::StatusOr<ValueId> OnesBelowMatmul(Rewriter& to, const NewOp& op) {
  std::vector<int> source = AddedOnes(to, op.in(0));
  if (source.size() < 2 || source.back() < 0 || to.type(op.in(1)).rank() != 2 ||
      op.op.attrs.Bool("transpose_a") ||
      to.type(to.Def(op.in(0))->operands[0]).rank() < 2) {
    return kNoValue;
  }
  ASYRA_ASSIGN_OR_RETURN(
      ValueId below,
      to.Add("matmul", {to.Def(op.in(0))->operands[0], op.in(1)}, op.op.attrs));
  return to.Reshape(below, op.type.shape());
}

absl::StatusOr<ValueId> BelowMatmul(Rewriter& to, const NewOp& op) {
  Merge lhs = FindMerge(to, op.in(0));
  if (!lhs) return OnesBelowMatmul(to, op);
  int rank = static_cast<int>(lhs.to.size());
  ValueId rhs = op.in(1);
  if (to.type(rhs).rank() == 2 && !op.op.attrs.Bool("transpose_a")) {
    ASYRA_ASSIGN_OR_RETURN(lhs, WithLastSingle(to, lhs));
    if (!lhs) return kNoValue;
  } else {
    // Both operands merge the same batch dimensions.
    Merge other = FindMerge(to, rhs);
    if (!other || other.to.size() != lhs.to.size() ||
        other.begins != lhs.begins || !lhs.is_single(rank - 1) ||
        !lhs.is_single(rank - 2)) {
      return kNoValue;
    }
    for (size_t i = 0; i + 2 < lhs.from.size(); ++i) {
      if (lhs.from[i] != other.from[i]) return kNoValue;
    }
    rhs = other.source;
  }
  ASYRA_ASSIGN_OR_RETURN(ValueId below,
                         to.Add("matmul", {lhs.source, rhs}, op.op.attrs));
  return to.Reshape(below, op.type.shape());
}

absl::StatusOr<ValueId> BelowSlice(Rewriter& to, const NewOp& op) {
  Merge merge = FindMerge(to, op.in(0));
  if (!merge) return kNoValue;
  int dim = NormalizeDim(op.op.attrs.Int("dim"), op.type.rank());
  if (!merge.is_single(dim)) return kNoValue;
  AttrMap attrs = op.op.attrs;
  attrs.Set("dim", static_cast<int64_t>(merge.begins[dim]));
  ASYRA_ASSIGN_OR_RETURN(ValueId below, to.Add("slice", {merge.source}, attrs));
  return to.Reshape(below, op.type.shape());
}

// All operands merge the same dimensions, but for the one they are joined
// along.
absl::StatusOr<ValueId> BelowConcat(Rewriter& to, const NewOp& op) {
  int dim = NormalizeDim(op.op.attrs.Int("dim"), op.type.rank());
  Merge first = FindMerge(to, op.in(0));
  if (!first || !first.is_single(dim)) return kNoValue;
  int below_dim = first.begins[dim];
  std::vector<ValueId> operands;
  for (ValueId value : op.op.operands) {
    Merge merge = FindMerge(to, value);
    if (!merge || merge.begins != first.begins) return kNoValue;
    Shape like = merge.from;
    like[below_dim] = first.from[below_dim];
    if (like != first.from) return kNoValue;
    operands.push_back(merge.source);
  }
  ASYRA_ASSIGN_OR_RETURN(
      ValueId below, to.Add("concat", operands, {{"dim", int64_t{below_dim}}}));
  return to.Reshape(below, op.type.shape());
}

absl::StatusOr<ValueId> OnesBelowTranspose(Rewriter& to, const NewOp& op) {
  std::vector<int> source = AddedOnes(to, op.in(0));
  if (source.empty()) return kNoValue;
  Ints perm;
  for (int64_t dim : op.op.attrs.Get<Ints>("perm")) {
    if (source[dim] >= 0) perm.push_back(source[dim]);
  }
  ASYRA_ASSIGN_OR_RETURN(ValueId below,
                         to.Transpose(to.Def(op.in(0))->operands[0], perm));
  return to.Reshape(below, op.type.shape());
}

// Moves a reshape below a transpose only where leading dimensions are merged
// and stay in front; heads that were merged into rows of a projection are
// better transposed as they are.
absl::StatusOr<ValueId> BelowTranspose(Rewriter& to, const NewOp& op) {
  Merge merge = FindMerge(to, op.in(0));
  if (!merge) return OnesBelowTranspose(to, op);
  const Ints& dims = op.op.attrs.Get<Ints>("perm");
  Ints perm;
  for (int64_t dim : dims) {
    if (dim > 0 && !merge.is_single(static_cast<int>(dim))) return kNoValue;
    for (int i = merge.begins[dim]; i < merge.begins[dim + 1]; ++i) {
      perm.push_back(i);
    }
  }
  if (dims[0] != 0) return kNoValue;
  ASYRA_ASSIGN_OR_RETURN(ValueId below, to.Transpose(merge.source, perm));
  return to.Reshape(below, op.type.shape());
}

}  // namespace

absl::StatusOr<ValueId> SinkReshape(Rewriter& to, const NewOp& op) {
  if (op.arity() == 0) return kNoValue;
  if (op.is("matmul")) return BelowMatmul(to, op);
  if (op.is("slice")) return BelowSlice(to, op);
  if (op.is("concat")) return BelowConcat(to, op);
  if (op.is("transpose")) return BelowTranspose(to, op);
  if (op.is("softmax") || IsRowwise(*op.op.def)) return BelowRows(to, op);
  if (IsElementwise(*op.op.def)) return BelowElementwise(to, op);
  return kNoValue;
}

}  // namespace asyra
