// Moves transposes to where they cancel.
#include <algorithm>

#include "passes/analysis/op_shape.h"
#include "passes/raise/canonicalize_rules.h"

namespace asyra {
namespace {

using NewOp = Rewriter::NewOp;

bool SwapsLastTwo(const Ints& perm) {
  size_t rank = perm.size();
  if (rank < 2) return false;
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return perm[rank - 1] == static_cast<int64_t>(rank) - 2;
}

absl::StatusOr<ValueId> IntoMatmul(Rewriter& to, const NewOp& op) {
  constexpr std::string_view kFlags[] = {"transpose_a", "transpose_b"};
  for (int i : {0, 1}) {
    const Op* transpose = to.Def(op.in(i), "transpose");
    if (transpose == nullptr ||
        !SwapsLastTwo(transpose->attrs.Get<Ints>("perm"))) {
      continue;
    }
    std::vector<ValueId> operands = {op.in(0), op.in(1)};
    operands[i] = transpose->operands[0];
    AttrMap attrs = op.op.attrs;
    attrs.Set(kFlags[i], !attrs.Bool(kFlags[i]));
    return to.Add("matmul", operands, attrs);
  }
  return kNoValue;
}

// `value`, which broadcasts against values transposed by `perm`, for what they
// were transposed from. kNoValue unless dimensions of size 1 are all that
// moves: a transpose that goes here only to come up there gains nothing.
absl::StatusOr<ValueId> Untransposed(Rewriter& to, ValueId value,
                                     const Ints& perm) {
  if (to.type(value).num_elements() == 1) return value;
  if (const Op* transpose = to.Def(value, "transpose")) {
    if (transpose->attrs.Get<Ints>("perm") == perm) {
      return transpose->operands[0];
    }
  }
  Shape shape = to.type(value).shape();
  if (shape.size() > perm.size()) return kNoValue;
  shape.insert(shape.begin(), perm.size() - shape.size(), 1);
  Shape source(shape.size());
  int64_t last = -1;
  for (size_t i = 0; i < perm.size(); ++i) source[perm[i]] = shape[i];
  for (size_t i = 0; i < perm.size(); ++i) {
    if (shape[i] == 1) continue;
    if (perm[i] < last) return kNoValue;
    last = perm[i];
  }
  auto first = std::find_if(source.begin(), source.end(),
                            [](int64_t size) { return size != 1; });
  return to.Reshape(value, Shape(first, source.end()));
}

const Ints* PermOf(const Rewriter& to, ValueId value) {
  const Op* transpose = to.Def(value, "transpose");
  return transpose == nullptr ? nullptr : &transpose->attrs.Get<Ints>("perm");
}

absl::StatusOr<ValueId> BelowElementwise(Rewriter& to, const NewOp& op) {
  for (ValueId value : op.op.operands) {
    const Ints* found = PermOf(to, value);
    if (found == nullptr || to.type(value).shape() != op.type.shape()) continue;
    Ints perm = *found;
    std::vector<ValueId> operands;
    for (ValueId operand : op.op.operands) {
      ASYRA_ASSIGN_OR_RETURN(operand, Untransposed(to, operand, perm));
      if (operand == kNoValue) return kNoValue;
      operands.push_back(operand);
    }
    ASYRA_ASSIGN_OR_RETURN(ValueId below,
                           to.Add(op.op.def->name, operands, op.op.attrs));
    return to.Transpose(below, perm);
  }
  return kNoValue;
}

// Ops on whole rows: rms_norm.
absl::StatusOr<ValueId> BelowRows(Rewriter& to, const NewOp& op) {
  const Ints* found = PermOf(to, op.in(0));
  if (found == nullptr ||
      found->back() != static_cast<int64_t>(found->size()) - 1) {
    return kNoValue;
  }
  Ints perm = *found;
  std::vector<ValueId> operands(op.op.operands.begin(), op.op.operands.end());
  operands[0] = to.Def(op.in(0))->operands[0];
  ASYRA_ASSIGN_OR_RETURN(ValueId below,
                         to.Add(op.op.def->name, operands, op.op.attrs));
  return to.Transpose(below, perm);
}

// Returns the transposed value, broadcast to the corresponding shape, if
// `value` is transposed by `perm`, and then perhaps broadcast. kNoValue
// otherwise.
absl::StatusOr<ValueId> SourceOf(Rewriter& to, ValueId value,
                                 const Ints& perm) {
  const Op* broadcast = to.Def(value, "broadcast");
  const Op* transpose = to.Def(
      broadcast == nullptr ? value : broadcast->operands[0], "transpose");
  if (transpose == nullptr || transpose->attrs.Get<Ints>("perm") != perm) {
    return kNoValue;
  }
  if (broadcast == nullptr) return transpose->operands[0];
  Shape shape = to.type(value).shape();
  Ints source(shape.size());
  if (shape.size() != perm.size()) return kNoValue;
  for (size_t i = 0; i < perm.size(); ++i) source[perm[i]] = shape[i];
  return to.Add("broadcast", {transpose->operands[0]}, {{"shape", source}});
}

// Ops that name one dimension and keep them all, every operand transposed
// by the same permutation.
absl::StatusOr<ValueId> BelowOneDim(Rewriter& to, const NewOp& op) {
  const Ints* found = PermOf(to, op.in(0));
  if (found == nullptr) return kNoValue;
  Ints perm = *found;
  std::vector<ValueId> operands;
  for (ValueId value : op.op.operands) {
    ASYRA_ASSIGN_OR_RETURN(ValueId source, SourceOf(to, value, perm));
    if (source == kNoValue) return kNoValue;
    operands.push_back(source);
  }
  AttrMap attrs = op.op.attrs;
  attrs.Set("dim", perm[NormalizeDim(attrs.Int("dim"), op.type.rank())]);
  ASYRA_ASSIGN_OR_RETURN(ValueId below,
                         to.Add(op.op.def->name, operands, attrs));
  return to.Transpose(below, perm);
}

absl::StatusOr<ValueId> BelowReduction(Rewriter& to, const NewOp& op) {
  const Ints* found = PermOf(to, op.in(0));
  if (found == nullptr) return kNoValue;
  Ints perm = *found, dims = op.op.attrs.Get<Ints>("dims");
  bool keep = op.op.attrs.Bool("keep");
  int rank = static_cast<int>(perm.size());
  std::vector<bool> reduced(rank, false);  // of the source
  for (int64_t& dim : dims) {
    dim = perm[NormalizeDim(dim, rank)];
    reduced[dim] = true;
  }
  std::sort(dims.begin(), dims.end());
  AttrMap attrs = op.op.attrs;
  attrs.Set("dims", dims);
  ASYRA_ASSIGN_OR_RETURN(
      ValueId below,
      to.Add(op.op.def->name, {to.Def(op.in(0))->operands[0]}, attrs));
  if (keep) return to.Transpose(below, perm);
  Ints left;
  for (int64_t dim : perm) {
    if (!reduced[dim])
      left.push_back(dim -
                     std::count(reduced.begin(), reduced.begin() + dim, true));
  }
  return to.Transpose(below, left);
}

// The source of a transpose that was given a last dimension of size 1.
ValueId UnderLastOne(const Rewriter& to, ValueId value, const Ints** perm) {
  const Op* reshape = to.Def(value, "reshape");
  if (reshape == nullptr) return kNoValue;
  Shape shape = to.type(reshape->operands[0]).shape();
  shape.push_back(1);
  *perm = PermOf(to, reshape->operands[0]);
  if (*perm == nullptr || shape != to.type(value).shape() ||
      (*perm)->back() != static_cast<int64_t>((*perm)->size()) - 1) {
    return kNoValue;
  }
  return to.Def(reshape->operands[0])->operands[0];
}

// Values interleaved along their last dimension, as stack and flatten spell
// it: reshape(concat(a [.., n, 1], b [.., n, 1])) is [.., 2 n].
absl::StatusOr<ValueId> BelowInterleave(Rewriter& to, const NewOp& op) {
  const Op* concat = to.Def(op.in(0), "concat");
  int rank = to.type(op.in(0)).rank();
  if (concat == nullptr || op.type.rank() != rank - 1 ||
      NormalizeDim(concat->attrs.Int("dim"), rank) != rank - 1) {
    return kNoValue;
  }
  std::vector<ValueId> operands;
  Ints perm;
  for (ValueId value : concat->operands) {
    const Ints* own = nullptr;
    ValueId source = UnderLastOne(to, value, &own);
    if (source == kNoValue || (!perm.empty() && perm != *own)) return kNoValue;
    perm = *own;
    operands.push_back(source);
  }
  for (int d = 0; d + 2 < rank; ++d) {
    if (op.type.size(d) != to.type(op.in(0)).size(d)) return kNoValue;
  }
  Shape shape;
  for (ValueId& value : operands) {
    shape = to.type(value).shape();
    shape.push_back(1);
    ASYRA_ASSIGN_OR_RETURN(value, to.Reshape(value, shape));
  }
  ASYRA_ASSIGN_OR_RETURN(
      ValueId below, to.Add("concat", operands, {{"dim", int64_t{rank} - 1}}));
  shape.pop_back();
  shape.back() = op.type.size(rank - 2);
  ASYRA_ASSIGN_OR_RETURN(below, to.Reshape(below, shape));
  return to.Transpose(below, perm);
}

}  // namespace

absl::StatusOr<ValueId> SinkTranspose(Rewriter& to, const NewOp& op) {
  if (op.arity() == 0) return kNoValue;
  if (op.is("matmul")) return IntoMatmul(to, op);
  if (op.is("reshape")) return BelowInterleave(to, op);
  if (op.is("slice") || op.is("concat") || op.is("softmax")) {
    return BelowOneDim(to, op);
  }
  if (op.is("reduce_sum") || op.is("reduce_mean") || op.is("reduce_max") ||
      op.is("reduce_min")) {
    return BelowReduction(to, op);
  }
  if (IsRowwise(*op.op.def)) return BelowRows(to, op);
  if (IsElementwise(*op.op.def)) return BelowElementwise(to, op);
  return kNoValue;
}

}  // namespace asyra
