#include "executor/cuda/codegen/expression.h"

#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "ir/support/check.h"

namespace asyra::cuda {
namespace {

// C++ code of ops by computation type; a type without code is not supported. $a
// is the number `attr`.
struct OpCode {
  std::string_view op, floats, ints, attr;
};

constexpr OpCode kOps[] = {
    {"add", "$0 + $1", "int64(uint64($0) + uint64($1))", ""},
    {"sub", "$0 - $1", "int64(uint64($0) - uint64($1))", ""},
    {"mul", "$0 * $1", "int64(uint64($0) * uint64($1))", ""},
    {"div", "$0 / $1", "Divide($0, $1)", ""},
    {"pow", "pow($0, $1)", "Power($0, $1)", ""},
    {"mod", "Remainder($0, $1, $a != 0)", "Remainder($0, $1, $a != 0)",
     "truncated"},
    {"max", "Larger($0, $1)", "Larger($0, $1)", ""},
    {"min", "Smaller($0, $1)", "Smaller($0, $1)", ""},
    {"equal", "$0 == $1", "$0 == $1", ""},
    {"less", "$0 < $1", "$0 < $1", ""},
    {"less_equal", "$0 <= $1", "$0 <= $1", ""},
    {"and", "", "$0 != 0 && $1 != 0", ""},
    {"or", "", "$0 != 0 || $1 != 0", ""},
    {"not", "", "$0 == 0", ""},
    {"is_nan", "$0 != $0", "", ""},
    {"is_inf", "isinf($0)", "", ""},
    {"select", "$0 != 0 ? $1 : $2", "$0 != 0 ? $1 : $2", ""},
    {"neg", "-$0", "int64(0 - uint64($0))", ""},
    {"abs", "fabs($0)", "$0 < 0 ? int64(0 - uint64($0)) : $0", ""},
    {"sign", "Sign($0)", "Sign($0)", ""},
    {"floor", "floor($0)", "", ""},
    {"ceil", "ceil($0)", "", ""},
    {"round", "rint($0)", "", ""},
    {"exp", "exp($0)", "", ""},
    {"expm1", "expm1($0)", "", ""},
    {"log", "log($0)", "", ""},
    {"log1p", "log1p($0)", "", ""},
    {"sqrt", "sqrt($0)", "", ""},
    {"rsqrt", "rsqrt($0)", "", ""},
    {"reciprocal", "1 / $0", "", ""},
    {"erf", "erf($0)", "", ""},
    {"sin", "sin($0)", "", ""},
    {"cos", "cos($0)", "", ""},
    {"tan", "tan($0)", "", ""},
    {"asin", "asin($0)", "", ""},
    {"acos", "acos($0)", "", ""},
    {"atan", "atan($0)", "", ""},
    {"sinh", "sinh($0)", "", ""},
    {"cosh", "cosh($0)", "", ""},
    {"tanh", "tanh($0)", "", ""},
    {"asinh", "asinh($0)", "", ""},
    {"acosh", "acosh($0)", "", ""},
    {"atanh", "atanh($0)", "", ""},
    {"sigmoid", "Sigmoid($0)", "", ""},
    {"silu", "Silu($0)", "", ""},
    {"quick_gelu", "QuickGelu($0)", "", ""},
    {"gelu", "Gelu($0)", "", ""},
    {"gelu_tanh", "GeluTanh($0)", "", ""},
    {"relu", "Relu($0)", "", ""},
    {"softplus", "Softplus($0)", "", ""},
    {"mish", "$0 * tanh(Softplus($0))", "", ""},
    {"hard_swish", "HardSwish($0)", "", ""},
    {"leaky_relu", "$0 > 0 ? $0 : $a * $0", "", "slope"},
    {"elu", "$0 > 0 ? $0 : $a * expm1($0)", "", "alpha"},
    {"softcap", "$a * tanh($0 / $a)", "", "cap"},
    {"swiglu", "Silu($0) * $1", "", ""},
    {"geglu", "Gelu($0) * $1", "", ""},
    {"geglu_tanh", "GeluTanh($0) * $1", "", ""},
    {"reglu", "Relu($0) * $1", "", ""},
};

const OpCode* FindCode(std::string_view op) {
  static const auto* const codes = [] {
    auto* by_name = new absl::flat_hash_map<std::string_view, const OpCode*>;
    for (const OpCode& code : kOps) (*by_name)[code.op] = &code;
    return by_name;
  }();
  auto found = codes->find(op);
  return found == codes->end() ? nullptr : found->second;
}

std::string_view CodeFor(const OpCode& code, Computed type) {
  return type == Computed::kInt ? code.ints : code.floats;
}

// All digits of it.
std::string Literal(double value, Computed type) {
  std::string_view name = TypeName(type);
  if (std::isnan(value)) return fmt::format("{}(NotANumber())", name);
  if (std::isinf(value)) {
    return fmt::format("{}({}Infinity())", name, value < 0 ? "-" : "");
  }
  if (type == Computed::kInt) {
    return fmt::format("int64({}ll)", static_cast<int64_t>(value));
  }
  return fmt::format("{}({:a})", name, value);
}

double AttrNumber(const AttrMap& attrs, std::string_view name) {
  const AttrValue* value = attrs.Find(name);
  ASYRA_CHECK(value != nullptr);
  if (KindOf(*value) == AttrKind::kBool) return std::get<bool>(*value) ? 1 : 0;
  return std::get<double>(*value);
}

}  // namespace

Computed ComputedOf(DType dtype) {
  if (!IsFloat(dtype)) return Computed::kInt;
  return dtype == DType::kF64 ? Computed::kDouble : Computed::kFloat;
}

std::string_view TypeName(Computed type) {
  constexpr std::string_view kNames[] = {"float", "double", "int64"};
  return kNames[static_cast<int>(type)];
}

std::string_view TypeName(DType dtype) {
  constexpr std::string_view kNames[] = {"Bool", "int",   "int64", "F16",
                                         "BF16", "float", "double"};
  return kNames[static_cast<int>(dtype)];
}

int Expression::Add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

int Expression::Operand(DType dtype) {
  operands_.push_back(dtype);
  return Add({.kind = Kind::kOperand,
              .type = ComputedOf(dtype),
              .operand = static_cast<int>(operands_.size()) - 1});
}

int Expression::SumOfOperands(DType dtype, int64_t count) {
  ASYRA_CHECK(count > 0);
  int sum = Operand(dtype);
  for (int64_t i = 1; i < count; ++i) {
    sum = Formula("$0 + $1", {sum, Operand(dtype)});
  }
  return sum;
}

int Expression::Apply(std::string_view op, const AttrMap& attrs, DType dtype,
                      const std::vector<int>& inputs) {
  if (op == "cast") {
    return Add({.type = ComputedOf(dtype),
                .code = fmt::format("Rounded<{}>($0)", TypeName(dtype)),
                .inputs = inputs});
  }
  const OpCode* code = FindCode(op);
  ASYRA_CHECK(code != nullptr);
  Computed in = nodes_[inputs.back()].type;
  std::string text(CodeFor(*code, in));
  if (!code->attr.empty()) {
    std::string number = Literal(AttrNumber(attrs, code->attr), in);
    for (size_t at; (at = text.find("$a")) != std::string::npos;) {
      text.replace(at, 2, number);
    }
  }
  // 32-bit integers wrap around before the next op reads them.
  if (dtype == DType::kI32) text = fmt::format("Rounded<int>({})", text);
  return Add(
      {.type = ComputedOf(dtype), .code = std::move(text), .inputs = inputs});
}

int Expression::Place() {
  return Add(
      {.kind = Kind::kPlace, .type = Computed::kInt, .operand = places_++});
}

int Expression::Formula(std::string code, const std::vector<int>& inputs) {
  return Formula(std::move(code), inputs, nodes_[inputs.back()].type);
}

int Expression::Formula(std::string code, const std::vector<int>& inputs,
                        Computed type) {
  return Add({.type = type, .code = std::move(code), .inputs = inputs});
}

int Expression::Number(double value, int like) {
  return Number(value, nodes_[like].type);
}

int Expression::Number(double value, Computed type) {
  return Add({.type = type, .code = Literal(value, type)});
}

int Expression::Reduce(ReductionKind kind, int input) {
  return Add({.kind = Kind::kReduce,
              .type = nodes_[input].type,
              .reduction = kind,
              .inputs = {input}});
}

int Expression::Inline(const Expression& op, const std::vector<int>& operands) {
  ASYRA_CHECK(op.results_.size() == 1 && op.places_ == 0);
  std::vector<int> mapped;
  for (const Node& node : op.nodes_) {
    if (node.kind == Kind::kOperand) {
      mapped.push_back(operands[node.operand]);
      continue;
    }
    Node copy = node;
    for (int& input : copy.inputs) input = mapped[input];
    mapped.push_back(Add(std::move(copy)));
  }
  auto [result, dtype] = op.results_[0];
  int value = mapped[result];
  has_wide_values_ |= dtype == DType::kF32 || dtype == DType::kF64;
  // Types that are converted to another one for computation.
  bool is_stored_smaller =
      dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kI32;
  if (!is_stored_smaller) return value;
  return Formula(fmt::format("Rounded<{}>($0)", TypeName(dtype)), {value},
                 ComputedOf(dtype));
}

void Expression::Store(int node, DType dtype) {
  results_.push_back({node, dtype});
}

std::vector<std::string_view> ElementwiseNames() {
  std::vector<std::string_view> names = {"cast"};
  for (const OpCode& code : kOps) names.push_back(code.op);
  return names;
}

bool IsElementwise(std::string_view op, absl::Span<const DType> operands) {
  if (op == "cast") return true;
  const OpCode* code = FindCode(op);
  return code != nullptr && !operands.empty() &&
         !CodeFor(*code, ComputedOf(operands.back())).empty();
}

}  // namespace asyra::cuda
