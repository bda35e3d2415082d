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

// Whether all elements pass; if `varied`, and they are not all the same. Most
// weights fail at the first one.
template <typename Test>
bool AreAll(const Tensor& data, Test test, bool varied) {
  double first = data.Get(0);
  bool same = true;
  for (int64_t i = 0; i < data.num_elements(); ++i) {
    double element = data.Get(i);
    if (!test(element)) return false;
    same &= element == first;
  }
  return !varied || !same;
}

bool IsAddedMask(const Tensor& data) {
  constexpr double kHidden = -1e3;
  bool hides = false;
  return AreAll(
             data,
             [&](double x) {
               hides |= x < kHidden;
               return x == 0 || x < kHidden;
             },
             /*varied=*/false) &&
         hides;
}

// Whether all of its matrices are zero on one side of a diagonal, and one
// number, the same everywhere, on the other: what sums up to, or from, a
// position. A matrix of one number alone is none, nor is the identity: weights
// may begin so.
bool IsTriangle(const Tensor& data) {
  int64_t rows = data.size(data.rank() - 2),
          columns = data.size(data.rank() - 1);
  double corner = data.Get((rows - 1) * columns);  // the last row's first
  bool lower = corner != 0;
  double number = lower ? corner : data.Get(columns - 1);
  if (number == 0) return false;
  // The first row says how far the diagonal is from the corner.
  int64_t filled = 0;
  while (filled < columns && (data.Get(filled) == number) == lower) ++filled;
  // Lower: columns before `filled + row` hold the number; upper: the others.
  bool zeros = false;
  for (int64_t i = 0; i < data.num_elements(); ++i) {
    int64_t row = i / columns % rows, column = i % columns;
    bool inside = (column < filled + row) == lower;
    if (data.Get(i) != (inside ? number : 0)) return false;
    zeros |= !inside;
  }
  return zeros;
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

  void Find() {
    for (const Input& input : program_.inputs) {
      const Type& type = program_.type(input.value);
      if (!IsWeight(input) || !IsFloat(type.dtype)) continue;
      std::optional<ParameterUse> use = UseOf(input.value, 0);
      std::string_view reason =
          type.num_elements() < 2 ? "single numbers"
          : !use.has_value()
              ? "no matmul, table, norm, sum or product of activations has them"
              : StructureOf(input, *use);
      if (reason.empty()) {
        parameters.push_back({input.value, *use});
      } else {
        untrained.push_back({input.value, reason});
      }
    }
  }

  std::vector<Parameter> parameters;
  std::vector<UntrainedWeight> untrained;

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

  // What kind of constant its data is, for that use; "" if it is none. Its last
  // two dimensions have several each: a scale of ones [1,1,d], as it may begin,
  // is no mask.
  std::string_view StructureOf(const Input& input, ParameterUse use) const {
    if (program_.weights == nullptr) return "";
    const Tensor* data =
        program_.weights->Find(program_.value_name(input.value));
    if (data == nullptr || data->data() == nullptr || data->rank() < 2) {
      return "";
    }
    int last = data->rank() - 1;
    if (data->size(last) < 2 || data->size(last - 1) < 2) return "";
    switch (use) {
      case ParameterUse::kMatrix:
        return IsTriangle(*data) ? "triangles of one number" : "";
      case ParameterUse::kScale:
        return AreAll(
                   *data, [](double x) { return x == 0 || x == 1; },
                   /*varied=*/true)
                   ? "masks of 0 and 1"
                   : "";
      case ParameterUse::kBias:
        if (IsTriangle(*data)) return "triangles of one number";
        return IsAddedMask(*data) ? "masks of 0 and numbers below -1000" : "";
    }
    return "";
  }

  const Program& program_;
  DefUse def_use_;
  // Computed from weights or float data, not from positions alone.
  std::vector<bool> numeric_;
};

}  // namespace

std::vector<Parameter> FindParameters(const Program& program) {
  ParameterFinder finder(program);
  finder.Find();
  return std::move(finder.parameters);
}

std::vector<UntrainedWeight> FindUntrained(const Program& program) {
  ParameterFinder finder(program);
  finder.Find();
  return std::move(finder.untrained);
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
  if (parameters.empty()) {
    return Invalid("freeze: {} matches all {} parameters, nothing is trained",
                   freeze, all);
  }
  if (parameters.size() == all) {
    return Invalid("freeze: none of the {} parameters is called {}", all,
                   freeze);
  }
  return parameters;
}

}  // namespace asyra
