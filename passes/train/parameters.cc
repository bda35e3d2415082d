#include "passes/train/parameters.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "ir/interpreter.h"
#include "ir/support/exporter_names.h"
#include "ir/weight_origin.h"
#include "ir/weights/weight_store.h"
#include "passes/train/constant_data.h"

namespace asyra {
namespace {

bool IsAny(const Op& op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op.def->name) != names.end();
}

// Gives the elements of operands again, at other places or in another type.
bool IsRearrangement(const Op& op) {
  return IsAny(op, {"reshape", "transpose", "cast", "broadcast", "slice",
                    "concat", "pad"});
}

bool IsLookup(const Op& op) {
  return IsAny(op, {"embedding", "gather", "gather_nd", "gather_elements"});
}

// Returns whether the derivative by an operand can be anything but 0.
bool HasSlope(const Program& program, const Op& op, size_t operand) {
  if (IsAny(op, {"sign", "floor", "ceil", "round"})) return false;
  return IsFloat(program.type(op.operands[operand]).dtype);
}

std::string LastWord(const std::string& name) {
  size_t at = name.find_last_of("./");
  return at == std::string::npos ? name : name.substr(at + 1);
}

bool IsStatisticName(const std::string& name) {
  constexpr std::string_view kNames[] = {"running_mean", "running_var",
                                         "running_std",  "moving_variance",
                                         "moving_mean",  "num_batches_tracked"};
  std::string word = LastWord(name);
  return std::find(std::begin(kNames), std::end(kNames), word) !=
         std::end(kNames);
}

// Returns whether at most two scalars occur: most weights fail at the third
// element.
bool IsTwoValued(const Tensor& data) {
  std::optional<double> first, second;
  for (int64_t i = 0; i < data.num_elements(); ++i) {
    double x = data.Get(i);
    if (!first.has_value() || x == *first) {
      first = x;
    } else if (!second.has_value() || x == *second) {
      second = x;
    } else {
      return false;
    }
  }
  return second.has_value();
}

bool IsUniform(const Tensor& data) {
  for (int64_t i = 1; i < data.num_elements(); ++i) {
    if (data.Get(i) != data.Get(0)) return false;
  }
  return true;
}

// Returns the same without dimensions of one element: a mask of tokens and
// channels may be [tokens, tokens, 1].
Tensor WithoutOnes(const Tensor& data) {
  Shape shape;
  for (int64_t size : data.shape()) {
    if (size != 1) shape.push_back(size);
  }
  return data.Reshaped(shape);
}

// Returns whether there are several elements in each of the last two
// dimensions.
bool IsMatrix(const Tensor& data) {
  int rank = data.rank();
  return rank >= 2 && data.size(rank - 1) >= 2 && data.size(rank - 2) >= 2;
}

class ParameterFinder {
 public:
  explicit ParameterFinder(const Program& program)
      : program_(program),
        def_use_(program),
        numeric_(program.values.size(), false),
        leads_(program.values.size(), false) {
    for (const Input& input : program.inputs) {
      numeric_[input.value] = IsFloat(program.type(input.value).dtype);
    }
    for (const Op& op : program.ops) {
      bool any = std::any_of(op.operands.begin(), op.operands.end(),
                             [&](ValueId v) { return numeric_[v]; });
      for (ValueId result : op.results) numeric_[result] = any;
    }
    FindWhatLeadsOut();
  }

  WeightRoles Find() {
    WeightRoles roles;
    for (const Input& input : program_.inputs) {
      const Type& type = program_.type(input.value);
      if (!IsWeight(input) || !IsFloat(type.dtype)) continue;
      std::string reason = ReasonAgainst(input);
      if (reason.empty()) {
        roles.parameters.push_back({input.value, UseOf(input.value)});
      } else {
        roles.untrained.push_back({input.value, std::move(reason)});
      }
    }
    return roles;
  }

 private:
  // Finds the values that a gradient of some output reaches.
  void FindWhatLeadsOut() {
    for (const Output& output : program_.outputs) {
      leads_[output.value] = IsFloat(program_.type(output.value).dtype);
    }
    for (size_t i = program_.ops.size(); i-- > 0;) {
      const Op& op = program_.ops[i];
      bool any = false;
      for (ValueId result : op.results) {
        any |= leads_[result] && IsFloat(program_.type(result).dtype);
      }
      if (!any) continue;
      for (size_t k = 0; k < op.operands.size(); ++k) {
        if (HasSlope(program_, op, k)) leads_[op.operands[k]] = true;
      }
    }
  }

  // Returns why a weight is no parameter; "" if it is one.
  std::string ReasonAgainst(const Input& input) const {
    if (input.origin != nullptr && !input.origin->constant.empty()) {
      return input.origin->constant;
    }
    if (IsStatisticName(UserName(program_, input))) {
      return "running statistics, as their names say";
    }
    if (!leads_[input.value]) return std::string(kNoGradient);
    if (OnlyRotaryTable(input.value)) {
      return std::string(kRotaryTables);
    }
    if (input.origin != nullptr && input.origin->made) {
      return "constants that passes have computed";
    }
    const Tensor* data = DataOf(input);
    bool geometric = data != nullptr && IsGeometric(*data);
    if (OnlyMultipliesPositions(input.value, geometric)) {
      return geometric ? "frequencies or slopes of positions"
                       : "frequencies that positions are multiplied with";
    }
    if (data == nullptr) return "";
    if (data->num_elements() > 1 && IsUniform(*data) &&
        IsExporterName(UserName(program_, input))) {
      return "one number everywhere, computed by the exporter";
    }
    if (data->rank() >= 2 && IsSines(*data)) return "sines of positions";
    const Tensor parts = WithoutOnes(*data);
    if (!IsMatrix(parts) || !(IsTwoValued(parts) || IsPlane(parts))) return "";
    return StructureOf(input.value, *data);
  }

  const Tensor* DataOf(const Input& input) const {
    if (program_.weights == nullptr) return nullptr;
    const Tensor* data =
        program_.weights->Find(program_.value_name(input.value));
    bool has =
        data != nullptr && data->data() != nullptr && data->num_elements() > 0;
    return has ? data : nullptr;
  }

  // Calls `test` for each reader of the value, through what rearranges it; true
  // if there are readers and all pass.
  bool AllReaders(ValueId value,
                  const std::function<bool(const Op&, ValueId)>& test) const {
    if (def_use_.output_uses[value] > 0) return false;
    bool any = false;
    for (int reader : def_use_.uses[value]) {
      const Op& op = program_.ops[reader];
      if (!leads_[op.results[0]]) continue;
      any = true;
      bool passes = IsRearrangement(op) ? AllReaders(op.results[0], test)
                                        : test(op, value);
      if (!passes) return false;
    }
    return any;
  }

  bool OnlyRotaryTable(ValueId value) const {
    return AllReaders(value, [&](const Op& op, ValueId read) {
      if (IsLookup(op)) return OnlyRotaryTable(op.results[0]);
      return op.def->name == "rotary" && op.operands[0] != read;
    });
  }

  // Multiplies positions: values that follow from integers alone, not from
  // floats of the data or of weights. A geometric series may multiply floats as
  // well on the way to sines, and positions on the way to anything.
  bool OnlyMultipliesPositions(ValueId value, bool geometric) const {
    return AllReaders(value, [&](const Op& op, ValueId read) {
      if (!IsAny(op, {"mul", "div", "matmul"})) return false;
      bool positions = true;
      for (ValueId operand : op.operands) {
        positions &= operand == read || !numeric_[operand];
      }
      if (!positions && !geometric) return false;
      return (positions && geometric) || OnlySines(op.results[0]);
    });
  }

  bool OnlySines(ValueId value) const {
    return AllReaders(value, [&](const Op& op, ValueId read) {
      if (IsAny(op, {"sin", "cos"})) return true;
      if (!IsAny(op, {"mul", "add", "sub", "div", "neg"})) return false;
      for (ValueId operand : op.operands) {
        if (operand != read && numeric_[operand]) return false;
      }
      return OnlySines(op.results[0]);
    });
  }

  // Returns the kind of constant that `data` is for all that read it; "" if it
  // is none for one of them. Readers of values that follow from it and from
  // constants alone get the data as they see it.
  std::string StructureOf(ValueId value, const Tensor& data) const {
    std::string found;
    bool constant = def_use_.output_uses[value] == 0;
    for (int reader : def_use_.uses[value]) {
      const Op& op = program_.ops[reader];
      if (!constant || !leads_[op.results[0]]) continue;
      std::string kind = StructureFor(op, value, data);
      constant = !kind.empty();
      found = std::move(kind);
    }
    return constant ? found : "";
  }

  std::string StructureFor(const Op& op, ValueId value,
                           const Tensor& data) const {
    if (std::optional<Tensor> derived = Derived(op, value, data)) {
      return StructureOf(op.results[0], *derived);
    }
    if (IsAny(op, {"matmul", "grouped_matmul"})) {
      return IsMatrix(data) && IsTriangle(data) ? "triangles of one number"
                                                : "";
    }
    const Tensor parts = WithoutOnes(data);
    if (!IsMatrix(parts)) return "";
    if (op.def->name == "mul") {
      return IsZeroOneMask(parts) ? "masks of 0 and 1" : "";
    }
    bool mask_operand = op.def->name == "attention" && op.operands.size() > 3 &&
                        op.operands[3] == value;
    if (mask_operand || IsAny(op, {"add", "sub"})) {
      if (IsTriangle(parts)) return "triangles of one number";
      if (IsAddedMask(parts)) return "masks of 0 and numbers below -1000";
      if (IsPlane(parts)) return "planes over positions";
    }
    return "";
  }

  // Returns the result of an op on the data and constants of the program alone.
  std::optional<Tensor> Derived(const Op& op, ValueId value,
                                const Tensor& data) const {
    constexpr int64_t kMost = int64_t{1} << 24;
    if (op.results.size() != 1 ||
        program_.type(op.results[0]).num_elements() > kMost) {
      return std::nullopt;
    }
    std::vector<Tensor> operands;
    for (ValueId operand : op.operands) {
      int def = def_use_.def[operand];
      if (operand == value) {
        operands.push_back(data);
      } else if (def >= 0 && program_.ops[def].def->name == "constant") {
        operands.push_back(program_.ops[def].attrs.Get<Tensor>("value"));
      } else {
        return std::nullopt;
      }
    }
    absl::StatusOr<std::vector<Tensor>> results =
        Evaluate(*op.def, op.attrs, operands);
    if (!results.ok()) return std::nullopt;
    return (*results)[0];
  }

  // Returns the use by the first reader that determines it.
  ParameterUse UseOf(ValueId value) const {
    std::optional<ParameterUse> use = FindUse(value, 0);
    if (use.has_value()) return *use;
    return program_.type(value).rank() >= 2 ? ParameterUse::kMatrix
                                            : ParameterUse::kBias;
  }

  std::optional<ParameterUse> FindUse(ValueId value, int depth) const {
    constexpr int kDeepest = 16;
    if (depth > kDeepest) return std::nullopt;
    for (int reader : def_use_.uses[value]) {
      const Op& op = program_.ops[reader];
      std::optional<ParameterUse> use = IsRearrangement(op)
                                            ? FindUse(op.results[0], depth + 1)
                                            : UseBy(op, value);
      if (use.has_value()) return use;
    }
    return std::nullopt;
  }

  static std::optional<ParameterUse> UseBy(const Op& op, ValueId value) {
    if (IsLookup(op)) {
      if (op.operands[0] == value) return ParameterUse::kMatrix;
      return std::nullopt;
    }
    if (IsAny(op, {"rms_norm", "layer_norm"})) {
      if (op.operands[0] == value) return std::nullopt;
      return op.operands[1] == value ? ParameterUse::kScale
                                     : ParameterUse::kBias;
    }
    if (IsAny(op, {"matmul", "grouped_matmul", "conv"})) {
      return ParameterUse::kMatrix;
    }
    if (IsAny(op, {"add", "sub"})) return ParameterUse::kBias;
    if (op.def->name == "mul") return ParameterUse::kScale;
    return std::nullopt;
  }

  const Program& program_;
  DefUse def_use_;
  // Computed from weights or float data, not from positions alone.
  std::vector<bool> numeric_;
  // A gradient of an output can reach it.
  std::vector<bool> leads_;
};

}  // namespace

WeightRoles FindParameters(const Program& program) {
  return ParameterFinder(program).Find();
}

}  // namespace asyra
