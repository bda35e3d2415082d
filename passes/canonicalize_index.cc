// Elements picked by positions that are known: a slice, whole or repeated.
// Exporters write x[:, positions] for what is x itself.
#include <optional>

#include "passes/canonicalize_rules.h"

namespace asyra {
namespace {

using NewOp = Rewriter::NewOp;

// Positions start, start + step, ... along dimension `along` of the indices;
// the same one everywhere where along is -1.
struct Progression {
  int64_t start = 0, step = 1, count = 1;
  int along = -1;
};

// Reads what indexes a dimension of `size`; nothing where the index varies
// along more than one dimension, descends or may be out of range.
std::optional<Progression> ReadProgression(const Fact& fact,
                                           const Shape& indices, int64_t size) {
  if (fact.kind != Fact::kAffine) return std::nullopt;
  Progression result;
  Range range = RangeOf(fact.affine, indices);
  // Counted from the end.
  auto shift = static_cast<double>(range.high < 0 ? size : 0);
  if (range.low + shift < 0 ||
      range.high + shift >= static_cast<double>(size)) {
    return std::nullopt;
  }
  result.start = static_cast<int64_t>(fact.affine.offset + shift);
  for (size_t d = 0; d < indices.size(); ++d) {
    double stride = fact.affine.strides[d];
    if (stride == 0) continue;
    if (stride < 0 || result.along >= 0) return std::nullopt;
    result.along = static_cast<int>(d);
    result.step = static_cast<int64_t>(stride);
    result.count = indices[d];
  }
  return result;
}

// Column k of the indices of a gather_nd.
Fact Column(Rewriter& to, ValueId indices, int k) {
  int last = to.type(indices).rank() - 1;
  if (const Tensor* data = to.Data(indices)) {
    return FactOfData(data->Slice(last, k, 1));
  }
  int64_t depth = to.type(indices).size(last);
  if (depth == 1) return to.fact(indices);
  const Op* concat = to.Def(indices, "concat");
  if (concat == nullptr ||
      static_cast<int64_t>(concat->operands.size()) != depth ||
      NormalizeDim(concat->attrs.Int("dim"), last + 1) != last) {
    return {};
  }
  return to.fact(concat->operands[k]);
}

// x [before, indexed, rest] picked by one progression for each indexed
// dimension, of indices [rows]: [before, rows, rest], which is `type`.
absl::StatusOr<ValueId> Pick(Rewriter& to, ValueId x, int before,
                             const std::vector<Progression>& picks,
                             const Type& type) {
  int depth = static_cast<int>(picks.size()), rank = to.type(x).rank();
  int rows = type.rank() - (rank - depth);
  std::vector<int> picked_by(rows, -1);  // which varies along each row
  for (int k = 0; k < depth; ++k) {
    const Progression& pick = picks[k];
    if (pick.along >= 0 && std::exchange(picked_by[pick.along], k) >= 0) {
      return kNoValue;  // a diagonal
    }
    int64_t last = pick.start + pick.step * (pick.count - 1);
    ASYRA_ASSIGN_OR_RETURN(x, to.Add("slice", {x},
                                     {{"dim", int64_t{before} + k},
                                      {"start", pick.start},
                                      {"stop", last + 1},
                                      {"step", pick.step}}));
  }
  Ints perm;
  for (int d = 0; d < before; ++d) perm.push_back(d);
  for (int k = 0; k < depth; ++k) {
    if (picks[k].along < 0) perm.push_back(before + k);
  }
  Shape shape = type.shape();
  for (int row = 0; row < rows; ++row) {
    if (picked_by[row] >= 0) {
      perm.push_back(before + picked_by[row]);
    } else {
      shape[before + row] = 1;
    }
  }
  for (int d = before + depth; d < rank; ++d) perm.push_back(d);
  ASYRA_ASSIGN_OR_RETURN(x, to.Transpose(x, perm));
  ASYRA_ASSIGN_OR_RETURN(x, to.Reshape(x, shape));
  if (to.type(x) == type) return x;
  Shape whole = type.shape();
  return to.Add("broadcast", {x},
                {{"shape", Ints(whole.begin(), whole.end())}});
}

}  // namespace

absl::StatusOr<ValueId> PickByPosition(Rewriter& to, const NewOp& op) {
  bool rows = op.is("gather_nd");
  if ((!rows && !op.is("gather")) || op.type.num_elements() == 0 ||
      (rows && op.op.attrs.Int("batch_dims") != 0)) {
    return kNoValue;
  }
  const Type& x = to.type(op.in(0));
  Shape indices = to.type(op.in(1)).shape();
  int before = rows ? 0 : NormalizeDim(op.op.attrs.Int("dim"), x.rank());
  int depth = rows ? static_cast<int>(indices.back()) : 1;
  if (rows) indices.back() = 1;
  std::vector<Progression> picks;
  for (int k = 0; k < depth; ++k) {
    std::optional<Progression> pick =
        ReadProgression(rows ? Column(to, op.in(1), k) : to.fact(op.in(1)),
                        indices, x.size(before + k));
    if (!pick.has_value()) return kNoValue;
    picks.push_back(*pick);
  }
  return Pick(to, op.in(0), before, picks, op.type);
}

}  // namespace asyra
