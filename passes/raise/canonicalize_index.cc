// Elements read or written at known positions become a slice, a broadcast or a
// concat. Exporters write x[:, positions] for x itself, and fill a tensor part
// by part.
#include <optional>

#include "passes/raise/canonicalize_rules.h"

namespace asyra {
namespace {

using NewOp = Rewriter::NewOp;

// Positions start, start + step, ..., in row-major order of the dimensions
// `along` of the indices; one and the same everywhere where there are none.
struct Progression {
  int64_t start = 0, step = 1, count = 1;
  std::vector<int> along;
};

// Recognises the index of a dimension of `size`; none if it descends, has
// uneven steps or may be out of range.
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
  for (int d = static_cast<int>(indices.size()) - 1; d >= 0; --d) {
    double stride = fact.affine.strides[d];
    if (stride == 0) continue;
    if (result.along.empty()) {
      if (stride < 0) return std::nullopt;
      result.step = static_cast<int64_t>(stride);
    } else if (stride != static_cast<double>(result.step * result.count)) {
      return std::nullopt;
    }
    result.along.insert(result.along.begin(), d);
    result.count *= indices[d];
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

absl::StatusOr<ValueId> SliceOf(Rewriter& to, ValueId x, int dim,
                                const Progression& pick) {
  int64_t last = pick.start + pick.step * (pick.count - 1);
  return to.Add("slice", {x},
                {{"dim", int64_t{dim}},
                 {"start", pick.start},
                 {"stop", last + 1},
                 {"step", pick.step}});
}

// x [before, indexed, rest] picked by one progression for each indexed
// dimension, of indices [rows]: [before, rows, rest], which is `type`.
absl::StatusOr<ValueId> Pick(Rewriter& to, ValueId x, int before,
                             const std::vector<Progression>& picks,
                             const Type& type) {
  int depth = static_cast<int>(picks.size());
  int rest = to.type(x).rank() - before - depth;
  int rows = type.rank() - before - rest;
  // Each indexed dimension as the rows that it varies along; of those, the
  // dimension it becomes.
  Shape split, result = type.shape();
  std::vector<int> place(rows, -1);
  for (int d = 0; d < before; ++d) split.push_back(type.size(d));
  for (int k = 0; k < depth; ++k) {
    ASYRA_ASSIGN_OR_RETURN(x, SliceOf(to, x, before + k, picks[k]));
    for (int row : picks[k].along) {
      if (place[row] >= 0) return kNoValue;  // a diagonal
      place[row] = static_cast<int>(split.size());
      split.push_back(type.size(before + row));
    }
  }
  Ints perm;
  for (int d = 0; d < before; ++d) perm.push_back(d);
  for (int row = 0; row < rows; ++row) {
    if (place[row] >= 0) {
      perm.push_back(place[row]);
    } else {
      result[before + row] = 1;
    }
  }
  for (int d = type.rank() - rest; d < type.rank(); ++d) {
    perm.push_back(static_cast<int64_t>(split.size()));
    split.push_back(type.size(d));
  }
  ASYRA_ASSIGN_OR_RETURN(x, to.Reshape(x, split));
  ASYRA_ASSIGN_OR_RETURN(x, to.Transpose(x, perm));
  ASYRA_ASSIGN_OR_RETURN(x, to.Reshape(x, result));
  if (to.type(x) == type) return x;
  Shape whole = type.shape();
  return to.Add("broadcast", {x},
                {{"shape", Ints(whole.begin(), whole.end())}});
}

absl::StatusOr<ValueId> Rows(Rewriter& to, ValueId x, int64_t start,
                             int64_t stop) {
  return to.Add("slice", {x},
                {{"dim", int64_t{0}}, {"start", start}, {"stop", stop}});
}

// Rows written over in one piece: x[start : start + n] = updates.
absl::StatusOr<ValueId> OverwriteRows(Rewriter& to, const NewOp& op) {
  const Type& x = to.type(op.in(0));
  const Type& indices = to.type(op.in(1));
  if (op.op.attrs.Get<std::string>("reduction") != "none" ||
      op.op.attrs.Int("batch_dims") != 0 || indices.rank() != 2 ||
      indices.size(1) != 1 || indices.size(0) == 0) {
    return kNoValue;
  }
  std::optional<Progression> rows =
      ReadProgression(to.fact(op.in(1)), indices.shape(), x.size(0));
  if (!rows.has_value() || rows->count != indices.size(0) || rows->step != 1) {
    return kNoValue;
  }
  int64_t stop = rows->start + rows->count;
  ASYRA_ASSIGN_OR_RETURN(ValueId before, Rows(to, op.in(0), 0, rows->start));
  ASYRA_ASSIGN_OR_RETURN(ValueId after, Rows(to, op.in(0), stop, x.size(0)));
  return to.Add("concat", {before, op.in(2), after}, {{"dim", int64_t{0}}});
}

}  // namespace

absl::StatusOr<ValueId> PickByPosition(Rewriter& to, const NewOp& op) {
  if (op.is("scatter_nd")) return OverwriteRows(to, op);
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
