#include "passes/train/parameters.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "ir/support/name_pattern.h"
#include "ir/support/status.h"
#include "ir/weight_store.h"

namespace asyra {
namespace {

bool IsAny(const Op& op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op.def->name) != names.end();
}

// What gives the elements of one operand again, at other places or in another
// type.
bool IsRearrangement(const Op& op) {
  return IsAny(op, {"reshape", "transpose", "cast", "broadcast", "slice",
                    "concat", "pad"});
}

class ParameterFinder {
 public:
  explicit ParameterFinder(const Program& program)
      : program_(program),
        def_use_(program),
        numeric_(program.values.size(), false) {
    for (const Input& input : program.inputs) {
      numeric_[input.value] = IsFloat(program.type(input.value).dtype);
    }
    for (const Op& op : program.ops) {
      bool any = std::any_of(op.operands.begin(), op.operands.end(),
                             [&](ValueId v) { return numeric_[v]; });
      for (ValueId result : op.results) numeric_[result] = any;
    }
  }

  std::vector<Parameter> Find() {
    std::vector<Parameter> found;
    for (const Input& input : program_.inputs) {
      const Type& type = program_.type(input.value);
      if (!IsWeight(input) || !IsFloat(type.dtype)) continue;
      if (type.num_elements() < 2) continue;
      std::optional<ParameterUse> use = UseOf(input.value, 0);
      if (use.has_value() && !IsMask(input)) {
        found.push_back({input.value, *use});
      }
    }
    return found;
  }

 private:
  // What the first reader that makes `value` a parameter does with it.
  std::optional<ParameterUse> UseOf(ValueId value, int depth) {
    constexpr int kDeepest = 16;
    if (depth > kDeepest) return std::nullopt;
    for (int reader : def_use_.uses[value]) {
      const Op& op = program_.ops[reader];
      std::optional<ParameterUse> use = IsRearrangement(op)
                                            ? UseOf(op.results[0], depth + 1)
                                            : UseBy(op, value);
      if (use.has_value()) return use;
    }
    return std::nullopt;
  }

  std::optional<ParameterUse> UseBy(const Op& op, ValueId value) const {
    if (IsAny(op, {"embedding", "gather", "gather_nd", "gather_elements"})) {
      if (op.operands[0] == value) return ParameterUse::kMatrix;
      return std::nullopt;
    }
    if (IsAny(op, {"rms_norm", "layer_norm"})) {
      if (op.operands[0] == value) return std::nullopt;
      return op.operands[1] == value ? ParameterUse::kScale
                                     : ParameterUse::kBias;
    }
    bool beside_numeric =
        std::any_of(op.operands.begin(), op.operands.end(),
                    [&](ValueId v) { return v != value && numeric_[v]; });
    if (!beside_numeric) return std::nullopt;
    if (IsAny(op, {"matmul", "grouped_matmul", "conv"})) {
      return ParameterUse::kMatrix;
    }
    if (IsAny(op, {"add", "sub"}) && !IsMasked(op)) return ParameterUse::kBias;
    if (op.def->name == "mul") return ParameterUse::kScale;
    return std::nullopt;
  }

  // Whether the op adds a mask: only softmax reads what it gives.
  bool IsMasked(const Op& op) const {
    const auto& uses = def_use_.uses[op.results[0]];
    return !uses.empty() &&
           std::all_of(uses.begin(), uses.end(), [&](int reader) {
             return program_.ops[reader].def->name == "softmax";
           });
  }

  // Whether it hides pairs of positions: its last two dimensions have several
  // each, and all of its data is 0, 1 or far below 0. So a scale of ones
  // [1,1,d], as it may begin, is none.
  bool IsMask(const Input& input) const {
    constexpr double kHidden = -1e3;
    constexpr int64_t kMost = 1 << 20;
    if (program_.weights == nullptr) return false;
    const Tensor* data =
        program_.weights->Find(program_.value_name(input.value));
    if (data == nullptr || data->rank() < 2) return false;
    int last = data->rank() - 1;
    if (data->size(last) < 2 || data->size(last - 1) < 2) return false;
    if (data->num_elements() > kMost || data->data() == nullptr) return false;
    bool hides = false;
    for (int64_t i = 0; i < data->num_elements(); ++i) {
      double element = data->Get(i);
      if (element != 0 && element != 1 && element > kHidden) return false;
      hides |= element < kHidden || element == 1;
    }
    return hides;
  }

  const Program& program_;
  DefUse def_use_;
  // Computed from weights or float data, not from positions alone.
  std::vector<bool> numeric_;
};

}  // namespace

std::vector<Parameter> FindParameters(const Program& program) {
  return ParameterFinder(program).Find();
}

absl::StatusOr<std::vector<Parameter>> WithoutFrozen(
    const Program& program, std::vector<Parameter> parameters,
    const std::string& freeze) {
  if (freeze.empty()) return parameters;
  ASYRA_ASSIGN_OR_RETURN(NamePattern pattern, NamePattern::Parse(freeze));
  size_t all = parameters.size();
  std::erase_if(parameters, [&](const Parameter& parameter) {
    return pattern.Matches(program.value_name(parameter.value));
  });
  if (parameters.size() == all) {
    return Invalid("freeze: none of the {} parameters is called {}", all,
                   freeze);
  }
  return parameters;
}

}  // namespace asyra
