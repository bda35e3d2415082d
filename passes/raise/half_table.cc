#include "passes/raise/half_table.h"

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "ir/interpreter.h"
#include "ir/weight_origin.h"
#include "ir/weights/weight_store.h"
#include "passes/analysis/op_shape.h"

namespace asyra {
namespace {

// Far above tables of real models; limits memory after a wrong guess.
constexpr int64_t kMaxTableBytes = int64_t{64} << 20;
// Views and functions between a table and the concat of its halves.
constexpr int kMaxDepth = 32;

// Returns whether both elements of each pair along `dim` are equal.
bool PairsEqual(const Tensor& data, int dim, Pairing pairing) {
  Shape split = data.shape();
  int64_t half = split[dim] / 2;
  bool halves = pairing == Pairing::kHalves;
  split[dim] = halves ? 2 : half;
  split.insert(split.begin() + dim + 1, halves ? half : 2);
  Tensor pairs = data.Reshaped(split);
  int of = halves ? dim : dim + 1;
  return SameBytes(pairs.Slice(of, 0, 1), pairs.Slice(of, 1, 1));
}

// The dimension of `from` that dimension `dim` of `to`, the same elements
// under another shape, is, or -1.
int SourceDim(const Shape& from, const Shape& to, int dim) {
  int64_t inner = 1, at = 1;
  for (size_t d = dim + 1; d < to.size(); ++d) inner *= to[d];
  for (int d = static_cast<int>(from.size()) - 1; d >= 0; --d) {
    if (at == inner && from[d] == to[dim]) return d;
    at *= from[d];
  }
  return -1;
}

class Halver {
 public:
  Halver(Rewriter& to, Pairing pairing) : to_(to), pairing_(pairing) {}

  absl::StatusOr<ValueId> Half(ValueId value, int dim, int depth = 0) {
    const Type type = to_.type(value);
    if (type.size(dim) % 2 != 0 || depth > kMaxDepth) return kNoValue;
    if (const Tensor* data = to_.Data(value)) {
      return PairsEqual(*data, dim, pairing_) ? First(value, dim) : kNoValue;
    }
    if (to_.Def(value) == nullptr) return kNoValue;
    const Op& op = *to_.Def(value);
    if (IsElementwise(*op.def)) return OfElementwise(op, type, dim, depth);
    std::string_view name = op.def->name;
    if (name == "concat") return OfConcat(op, type, dim);
    if (name == "reshape" || name == "broadcast") {
      return OfView(op, type, dim, depth);
    }
    if (name == "transpose") {
      const Ints& perm = op.attrs.Get<Ints>("perm");
      int source = NormalizeDim(perm[dim], type.rank());
      return OfFirst(op, source, depth);
    }
    if (name == "slice" || name == "gather" || name == "embedding") {
      return OfRows(op, type, dim, depth);
    }
    return kNoValue;
  }

 private:
  // The first of each pair.
  absl::StatusOr<ValueId> First(ValueId value, int dim) {
    int64_t size = to_.type(value).size(dim);
    bool halves = pairing_ == Pairing::kHalves;
    return to_.Add("slice", {value},
                   {{"dim", int64_t{dim}},
                    {"start", int64_t{0}},
                    {"stop", halves ? size / 2 : size},
                    {"step", int64_t{halves ? 1 : 2}}});
  }

  absl::StatusOr<ValueId> OfConcat(const Op& op, const Type& type, int dim) {
    if (pairing_ != Pairing::kHalves || op.operands.size() != 2 ||
        op.operands[0] != op.operands[1] ||
        NormalizeDim(op.attrs.Int("dim"), type.rank()) != dim) {
      return kNoValue;
    }
    return op.operands[0];
  }

  absl::StatusOr<ValueId> OfElementwise(const Op& op, const Type& type, int dim,
                                        int depth) {
    std::vector<ValueId> operands;
    bool any = false;
    for (ValueId value : op.operands) {
      int own = dim - type.rank() + to_.type(value).rank();
      if (own >= 0 && to_.type(value).size(own) > 1) {
        ASYRA_ASSIGN_OR_RETURN(value, Half(value, own, depth + 1));
        if (value == kNoValue) return kNoValue;
        any = true;
      }
      operands.push_back(value);
    }
    if (!any) return kNoValue;
    return to_.Add(op.def->name, operands, op.attrs);
  }

  absl::StatusOr<ValueId> OfView(const Op& op, const Type& type, int dim,
                                 int depth) {
    Shape source = to_.type(op.operands[0]).shape();
    int own = op.def->name == "reshape"
                  ? SourceDim(source, type.shape(), dim)
                  : dim - type.rank() + static_cast<int>(source.size());
    if (own < 0 && op.def->name == "reshape") return OfMerge(op, type, dim);
    if (own < 0 || source[own] != type.size(dim)) return kNoValue;
    ASYRA_ASSIGN_OR_RETURN(ValueId half, Half(op.operands[0], own, depth + 1));
    if (half == kNoValue) return kNoValue;
    Ints shape = op.attrs.Get<Ints>("shape");
    shape[dim] /= 2;
    return to_.Add(op.def->name, {half}, {{"shape", shape}});
  }

  // A reshape that merges the two of a dimension, [.., 2, n] or [.., n, 2],
  // which are a broadcast or a concat of one value with itself.
  absl::StatusOr<ValueId> OfMerge(const Op& op, const Type& type, int dim) {
    const Op* copies = to_.Def(op.operands[0]);
    if (copies == nullptr || copies->operands.empty()) return kNoValue;
    Shape half = type.shape(), split = to_.type(op.operands[0]).shape();
    half[dim] /= 2;
    int two = FindTwo(split, type.shape(), dim);
    if (two < 0) return kNoValue;
    Shape one = split;
    one[two] = 1;
    ValueId source = copies->operands[0];
    if (copies->def->name == "broadcast") {
      int own = two - static_cast<int>(split.size()) + to_.type(source).rank();
      if (own >= 0 && to_.type(source).size(own) != 1) return kNoValue;
      ASYRA_ASSIGN_OR_RETURN(
          source, to_.Add("broadcast", {source},
                          {{"shape", Ints(one.begin(), one.end())}}));
    } else if (copies->def->name != "concat" || copies->operands.size() != 2 ||
               copies->operands[1] != source ||
               to_.type(source).shape() != one) {
      return kNoValue;
    }
    return to_.Reshape(source, half);
  }

  // The dimension of size 2 that, with the n beside it, is merged into
  // dimension `dim` of `merged`; or -1.
  int FindTwo(const Shape& split, const Shape& merged, int dim) const {
    int64_t inner = 1, at = 1, n = merged[dim] / 2;
    for (size_t d = dim + 1; d < merged.size(); ++d) inner *= merged[d];
    bool halves = pairing_ == Pairing::kHalves;
    for (int d = static_cast<int>(split.size()) - 1; d > 0; --d) {
      if (at == inner && split[d] == (halves ? n : 2) &&
          split[d - 1] == (halves ? 2 : n)) {
        return halves ? d - 1 : d;
      }
      at *= split[d];
    }
    return -1;
  }

  // The op with the first operand halved along `dim`.
  absl::StatusOr<ValueId> OfFirst(const Op& op, int dim, int depth) {
    std::vector<ValueId> operands(op.operands.begin(), op.operands.end());
    ASYRA_ASSIGN_OR_RETURN(operands[0], Half(operands[0], dim, depth + 1));
    if (operands[0] == kNoValue) return kNoValue;
    return to_.Add(op.def->name, operands, op.attrs);
  }

  // Ops that pick rows: dimensions behind theirs stay as they are.
  absl::StatusOr<ValueId> OfRows(const Op& op, const Type& type, int dim,
                                 int depth) {
    int rank = to_.type(op.operands[0]).rank();
    int own = dim - type.rank() + rank;
    int picked = op.def->name == "embedding"
                     ? 0
                     : NormalizeDim(op.attrs.Int("dim"), rank);
    if (own <= picked) return kNoValue;
    return OfFirst(op, own, depth);
  }

  Rewriter& to_;
  Pairing pairing_;
};

// Values of a program that can be computed before it runs.
class Known {
 public:
  // Weights that are trained are not known.
  Known(const Program& program, const NamePattern* trained)
      : program_(program),
        def_use_(program),
        weight_(program.values.size(), false) {
    for (const Input& input : program.inputs) {
      bool changes = trained != nullptr &&
                     (trained->Matches(UserName(program, input)) ||
                      trained->Matches(program.value_name(input.value)));
      weight_[input.value] =
          input.stored.empty() && IsWeight(input) && !changes;
      bool made = input.origin != nullptr && input.origin->made;
      tensors_[input.value] = made ? "" : UserName(program, input);
    }
  }

  // Returns whether `value` depends only on data, in at most the bytes of a
  // table.
  bool IsKnown(ValueId value) {
    auto found = known_.find(value);
    if (found != known_.end()) return found->second;
    bool known = program_.type(value).bytes() <= kMaxTableBytes;
    int def = def_use_.def[value];
    if (def < 0) {
      known = known && Data(value) != nullptr;
    } else {
      const Op& op = program_.ops[def];
      known = known && op.def->is_pure && op.results.size() == 1;
      for (ValueId operand : op.operands) known = known && IsKnown(operand);
    }
    return known_[value] = known;
  }

  // Adds what of `value`, a known table of rotary embedding, is computed before
  // the program runs: all of it, or the sines that a parameter scales, which
  // would else be one too.
  void AddTables(ValueId value, std::vector<ValueId>* tables) {
    if (IsInput(value)) return;
    const Op& op = program_.ops[def_use_.def[value]];
    if (!IsScaled(value)) {
      tables->push_back(value);
    } else {
      for (ValueId operand : op.operands) AddSines(operand, tables);
    }
  }

  // Returns whether a tensor of several elements goes into sums or products
  // behind the sines: it is no angle, and may be a parameter.
  bool IsScaled(ValueId value, bool behind = false) const {
    int def = def_use_.def[value];
    if (def < 0) {
      return behind && weight_[value] &&
             program_.type(value).num_elements() > 1;
    }
    const Op& op = program_.ops[def];
    if (IsSine(op)) return false;
    constexpr std::string_view kMoves[] = {"broadcast", "cast",   "concat",
                                           "embedding", "gather", "neg",
                                           "pad",       "slice",  "transpose"};
    bool moves = op.def->is_view || absl::c_linear_search(kMoves, op.def->name);
    return absl::c_any_of(op.operands, [&](ValueId operand) {
      return IsScaled(operand, behind || !moves);
    });
  }

  absl::StatusOr<Tensor> Value(ValueId value) {
    int def = def_use_.def[value];
    if (def < 0) return *Data(value);
    auto found = values_.find(value);
    if (found != values_.end()) return found->second;
    const Op& op = program_.ops[def];
    std::vector<Tensor> operands;
    for (ValueId operand : op.operands) {
      ASYRA_ASSIGN_OR_RETURN(Tensor tensor, Value(operand));
      operands.push_back(std::move(tensor));
    }
    ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> results,
                           Evaluate(*op.def, op.attrs, operands));
    values_[value] = results[0];
    return results[0];
  }

  bool IsInput(ValueId value) const { return def_use_.def[value] < 0; }

  // The first tensor of the model's file that a known value is computed from;
  // empty: none.
  std::string TensorOf(ValueId value) {
    auto found = tensors_.find(value);
    if (found != tensors_.end()) return found->second;
    std::string tensor;
    for (ValueId operand : program_.ops[def_use_.def[value]].operands) {
      if (tensor.empty()) tensor = TensorOf(operand);
    }
    return tensors_[value] = tensor;
  }

 private:
  static bool IsSine(const Op& op) {
    return op.def->name == "cos" || op.def->name == "sin";
  }

  // Adds the sines above `value` that follow from tensors of the model's file.
  void AddSines(ValueId value, std::vector<ValueId>* tables) {
    if (IsInput(value)) return;
    const Op& op = program_.ops[def_use_.def[value]];
    if (IsSine(op)) {
      if (!TensorOf(value).empty()) tables->push_back(value);
      return;
    }
    for (ValueId operand : op.operands) AddSines(operand, tables);
  }

  const Tensor* Data(ValueId value) const {
    if (!weight_[value] || program_.weights == nullptr) return nullptr;
    const Tensor* data = program_.weights->Find(program_.value_name(value));
    return data == nullptr || data->data() == nullptr ? nullptr : data;
  }

  const Program& program_;
  DefUse def_use_;
  std::vector<bool> weight_;
  absl::flat_hash_map<ValueId, std::string> tensors_;
  absl::flat_hash_map<ValueId, bool> known_;
  absl::flat_hash_map<ValueId, Tensor> values_;
};

}  // namespace

absl::StatusOr<ValueId> HalfOf(Rewriter& to, ValueId value, Pairing pairing) {
  int rank = to.type(value).rank();
  if (rank == 0) return kNoValue;
  return Halver(to, pairing).Half(value, rank - 1);
}

std::optional<RotaryLayout> FindRotaryLayout(const Rewriter& to, ValueId table,
                                             const Shape& x) {
  int rank = static_cast<int>(x.size());
  Shape shape = to.type(table).shape();
  if (rank < 3 || static_cast<int>(shape.size()) > rank) return std::nullopt;
  shape.insert(shape.begin(), rank - shape.size(), 1);
  int inner = 0;  // dimensions over which the table varies
  for (int d = 1; d + 1 < rank; ++d) inner += shape[d] != 1 ? 1 : 0;
  for (int d : {rank - 2, 1}) {
    int varies = shape[d] != 1 ? 1 : 0;
    if (shape[d] != x[d] || inner != varies) continue;
    RotaryLayout layout;
    layout.heads_first = d != 1;
    layout.positions = d;
    layout.rank = rank;
    layout.width = shape[rank - 1];
    int64_t heads = 1;
    for (int i = 1; i + 1 < rank; ++i) heads *= i == d ? 1 : x[i];
    layout.of_x = layout.heads_first ? Shape{x[0], heads, x[d], x[rank - 1]}
                                     : Shape{x[0], x[d], heads, x[rank - 1]};
    return layout;
  }
  return std::nullopt;
}

absl::StatusOr<ValueId> AsRotaryTable(Rewriter& to, ValueId value,
                                      const RotaryLayout& layout) {
  Shape shape = to.type(value).shape();
  if (static_cast<int>(shape.size()) > layout.rank) return kNoValue;
  shape.insert(shape.begin(), layout.rank - shape.size(), 1);
  int64_t positions = layout.of_x[layout.heads_first ? 2 : 1];
  for (int d = 0; d < layout.rank; ++d) {
    int64_t wanted = d == layout.positions     ? positions
                     : d == layout.rank - 1    ? layout.width
                     : d == 0 && shape[0] != 1 ? layout.of_x[0]
                                               : 1;
    if (shape[d] != wanted) return kNoValue;
  }
  if (shape[0] == 1) return to.Reshape(value, {positions, layout.width});
  return to.Reshape(value, {shape[0], positions, layout.width});
}

absl::StatusOr<bool> FoldRotaryTables(Program& program,
                                      const NamePattern* trained) {
  Known known(program, trained);
  std::vector<ValueId> folded;
  for (const Op& op : program.ops) {
    if (op.def->name != "rotary") continue;
    for (int i : {1, 2}) {
      if (known.IsKnown(op.operands[i])) {
        known.AddTables(op.operands[i], &folded);
      }
    }
  }
  if (folded.empty()) return false;
  absl::flat_hash_map<ValueId, Tensor> tables;
  for (ValueId table : folded) {
    ASYRA_ASSIGN_OR_RETURN(tables[table], known.Value(table));
  }
  Rewriter rewriter(program, {});
  for (const Op& op : program.ops) {
    auto found =
        op.results.size() == 1 ? tables.find(op.results[0]) : tables.end();
    if (found == tables.end()) {
      ASYRA_RETURN_IF_ERROR(rewriter.Copy(op));
    } else {
      std::string name = program.value_name(op.results[0]) + ".table";
      rewriter.Map(
          op.results[0],
          rewriter.Weight(name, found->second, known.TensorOf(found->first)));
    }
  }
  return rewriter.Finish(program);
}

}  // namespace asyra
