#include "passes/half_table.h"

#include "absl/container/flat_hash_map.h"
#include "ir/interpreter.h"
#include "ir/weight_store.h"
#include "passes/op_shape.h"

namespace asyra {
namespace {

// No table of any model comes near; a wrong guess must not fill memory.
constexpr int64_t kMaxTableBytes = int64_t{64} << 20;
// Views and functions between a table and the concat of its halves.
constexpr int kMaxDepth = 32;

bool HalvesEqual(const Tensor& data) {
  int last = data.rank() - 1;
  int64_t half = data.size(last) / 2;
  return SameBytes(data.Slice(last, 0, half), data.Slice(last, half, half));
}

class Halver {
 public:
  explicit Halver(Rewriter& to) : to_(to) {}

  absl::StatusOr<ValueId> Half(ValueId value, int depth = 0) {
    const Type& type = to_.type(value);
    if (type.rank() == 0 || type.size(type.rank() - 1) % 2 != 0 ||
        depth > kMaxDepth) {
      return kNoValue;
    }
    if (const Tensor* data = to_.Data(value)) {
      return HalvesEqual(*data) ? FirstHalf(value) : kNoValue;
    }
    const Op* op = to_.Def(value);
    if (op == nullptr) return kNoValue;
    if (IsElementwise(*op->def)) return OfElementwise(*op, type, depth);
    std::string_view name = op->def->name;
    if (name == "concat") return OfConcat(*op, type);
    if (name == "reshape" || name == "broadcast") {
      return OfView(*op, type, depth);
    }
    if (name == "transpose" || name == "slice" || name == "gather" ||
        name == "embedding") {
      return OfRows(*op, type, depth);
    }
    return kNoValue;
  }

 private:
  absl::StatusOr<ValueId> FirstHalf(ValueId value) {
    const Type& type = to_.type(value);
    int last = type.rank() - 1;
    return to_.Add("slice", {value},
                   {{"dim", int64_t{last}},
                    {"start", int64_t{0}},
                    {"stop", type.size(last) / 2}});
  }

  absl::StatusOr<ValueId> OfConcat(const Op& op, const Type& type) {
    if (op.operands.size() != 2 || op.operands[0] != op.operands[1] ||
        NormalizeDim(op.attrs.Int("dim"), type.rank()) != type.rank() - 1) {
      return kNoValue;
    }
    return op.operands[0];
  }

  absl::StatusOr<ValueId> OfElementwise(const Op& op, const Type& type,
                                        int depth) {
    std::vector<ValueId> operands;
    for (ValueId value : op.operands) {
      const Type& own = to_.type(value);
      bool along = own.rank() > 0 && own.size(own.rank() - 1) > 1;
      if (along) {
        ASYRA_ASSIGN_OR_RETURN(value, Half(value, depth + 1));
        if (value == kNoValue) return kNoValue;
      }
      operands.push_back(value);
    }
    ASYRA_ASSIGN_OR_RETURN(ValueId half,
                           to_.Add(op.def->name, operands, op.attrs));
    // Nothing varied along the last dimension.
    return to_.type(half).size(type.rank() - 1) * 2 ==
                   type.size(type.rank() - 1)
               ? half
               : kNoValue;
  }

  absl::StatusOr<ValueId> OfView(const Op& op, const Type& type, int depth) {
    const Type& source = to_.type(op.operands[0]);
    int64_t size = type.size(type.rank() - 1);
    if (source.rank() == 0 || source.size(source.rank() - 1) != size) {
      return kNoValue;
    }
    ASYRA_ASSIGN_OR_RETURN(ValueId half, Half(op.operands[0], depth + 1));
    if (half == kNoValue) return kNoValue;
    Ints shape = op.attrs.Get<Ints>("shape");
    shape.back() = size / 2;
    return to_.Add(op.def->name, {half}, {{"shape", shape}});
  }

  // Ops that leave the last dimension where it is, and whole.
  absl::StatusOr<ValueId> OfRows(const Op& op, const Type& type, int depth) {
    int last = type.rank() - 1;
    int source_rank = to_.type(op.operands[0]).rank();
    if (op.def->name == "transpose") {
      const Ints& perm = op.attrs.Get<Ints>("perm");
      if (NormalizeDim(perm[last], source_rank) != last) return kNoValue;
    }
    if (op.def->name == "slice" || op.def->name == "gather") {
      if (NormalizeDim(op.attrs.Int("dim"), source_rank) == source_rank - 1) {
        return kNoValue;
      }
    }
    std::vector<ValueId> operands(op.operands.begin(), op.operands.end());
    ASYRA_ASSIGN_OR_RETURN(operands[0], Half(operands[0], depth + 1));
    if (operands[0] == kNoValue) return kNoValue;
    return to_.Add(op.def->name, operands, op.attrs);
  }

  Rewriter& to_;
};

// Values of a program that can be computed before it runs.
class Known {
 public:
  explicit Known(const Program& program)
      : program_(program),
        def_use_(program),
        weight_(program.values.size(), false) {
    for (const Input& input : program.inputs) {
      weight_[input.value] = input.role == InputRole::kWeight;
    }
  }

  // Whether only data stands behind it, in at most the bytes of a table.
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

 private:
  const Tensor* Data(ValueId value) const {
    if (!weight_[value] || program_.weights == nullptr) return nullptr;
    return program_.weights->Find(program_.value_name(value));
  }

  const Program& program_;
  DefUse def_use_;
  std::vector<bool> weight_;
  absl::flat_hash_map<ValueId, bool> known_;
  absl::flat_hash_map<ValueId, Tensor> values_;
};

}  // namespace

absl::StatusOr<ValueId> HalfOf(Rewriter& to, ValueId value) {
  return Halver(to).Half(value);
}

absl::StatusOr<ValueId> AsRotaryTable(Rewriter& to, ValueId value,
                                      const Type& x, int s, int64_t width) {
  Shape shape = to.type(value).shape();
  if (shape.size() > 4) return kNoValue;
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  int heads = 3 - s;
  if (shape[heads] != 1 || shape[s] != x.size(s) || shape[3] != width) {
    return kNoValue;
  }
  if (shape[0] == 1) return to.Reshape(value, {shape[s], width});
  return to.Reshape(value, {shape[0], shape[s], width});
}

absl::StatusOr<bool> FoldRotaryTables(Program& program) {
  Known known(program);
  absl::flat_hash_map<ValueId, Tensor> tables;
  for (const Op& op : program.ops) {
    if (op.def->name != "rotary") continue;
    for (int i : {1, 2}) {
      ValueId table = op.operands[i];
      if (known.IsInput(table) || !known.IsKnown(table)) continue;
      ASYRA_ASSIGN_OR_RETURN(tables[table], known.Value(table));
    }
  }
  if (tables.empty()) return false;
  Rewriter rewriter(program, {});
  for (const Op& op : program.ops) {
    auto found =
        op.results.size() == 1 ? tables.find(op.results[0]) : tables.end();
    if (found == tables.end()) {
      ASYRA_RETURN_IF_ERROR(rewriter.Copy(op));
    } else {
      std::string name = program.value_name(op.results[0]) + ".table";
      rewriter.Map(op.results[0], rewriter.Weight(name, found->second));
    }
  }
  return rewriter.Finish(program);
}

}  // namespace asyra
