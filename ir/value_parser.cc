#include "ir/value_parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "fmt/format.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// A larger literal is a mistake or an attack: large data belongs into the
// weight file.
constexpr int64_t kMaxLiteralElements = int64_t{1} << 20;
constexpr int kMaxRank = 16;

}  // namespace

absl::Status ValueParser::End() {
  if (lexer_.peek().kind == Token::kEnd) return absl::OkStatus();
  return lexer_.Error("expected the end");
}

absl::StatusOr<Type> ValueParser::ParseType() {
  Type type;
  type.future = lexer_.TryWord("future");
  Token dtype = lexer_.peek();
  if (dtype.kind != Token::kName || !ParseDType(dtype.text, &type.dtype)) {
    return lexer_.Error("expected an element type");
  }
  lexer_.Take();
  ASYRA_RETURN_IF_ERROR(Expect("["));
  AxisList seen;
  if (!lexer_.TryPunct("]")) {
    do {
      ASYRA_ASSIGN_OR_RETURN(Dim dim, ParseDim());
      for (AxisId axis : dim.axes) ASYRA_RETURN_IF_ERROR(Once(axis, &seen));
      type.dims.push_back(std::move(dim));
    } while (lexer_.TryPunct(","));
    ASYRA_RETURN_IF_ERROR(Expect("]"));
  }
  if (type.rank() > kMaxRank) {
    return lexer_.Error(
        fmt::format("rank {} exceeds {}", type.rank(), kMaxRank));
  }
  int64_t bytes = SizeOf(type.dtype);
  for (const Dim& dim : type.dims) {
    if (__builtin_mul_overflow(bytes, dim.size, &bytes)) {
      return lexer_.Error("the type has more than 2^63 bytes");
    }
  }
  if (lexer_.TryWord("partial")) {
    ASYRA_ASSIGN_OR_RETURN(type.partial, ParseAxes());
    for (AxisId axis : type.partial) ASYRA_RETURN_IF_ERROR(Once(axis, &seen));
    std::sort(type.partial.begin(), type.partial.end());
  }
  return type;
}

absl::StatusOr<AttrValue> ValueParser::ParseAttr(AttrKind kind) {
  const Token& token = lexer_.peek();
  switch (kind) {
    case AttrKind::kBool:
      if (lexer_.TryWord("true")) return AttrValue(true);
      if (lexer_.TryWord("false")) return AttrValue(false);
      return lexer_.Error("expected true or false");
    case AttrKind::kInt: {
      ASYRA_ASSIGN_OR_RETURN(int64_t value, Int());
      return AttrValue(value);
    }
    case AttrKind::kFloat: {
      ASYRA_ASSIGN_OR_RETURN(double value, Float());
      return AttrValue(value);
    }
    case AttrKind::kString:
      if (token.kind != Token::kString) {
        return lexer_.Error("expected a string");
      }
      return AttrValue(lexer_.Take().text);
    case AttrKind::kInts: {
      ASYRA_ASSIGN_OR_RETURN(Ints values, IntList());
      return AttrValue(std::move(values));
    }
    case AttrKind::kAxes: {
      ASYRA_ASSIGN_OR_RETURN(AxisList axes, ParseAxes());
      return AttrValue(std::move(axes));
    }
    case AttrKind::kDType: {
      DType dtype;
      if (!ParseDType(token.text, &dtype)) {
        return lexer_.Error("expected an element type");
      }
      lexer_.Take();
      return AttrValue(dtype);
    }
    case AttrKind::kTensor: {
      ASYRA_ASSIGN_OR_RETURN(Tensor tensor, Literal());
      return AttrValue(std::move(tensor));
    }
    case AttrKind::kBody:
    case AttrKind::kPlan:
      break;  // are without a name: Attrs
  }
  return lexer_.Error("unknown kind of attribute");
}

absl::StatusOr<AttrValue> ValueParser::ParseWord() {
  if (lexer_.peek().kind != Token::kName)
    return lexer_.Error("expected a word");
  return AttrValue(lexer_.Take().text);
}

absl::Status ValueParser::Expect(std::string_view punct) {
  if (lexer_.TryPunct(punct)) return absl::OkStatus();
  return lexer_.Error(fmt::format("expected '{}'", punct));
}

absl::Status ValueParser::Once(AxisId axis, AxisList* seen) {
  if (Contains(*seen, axis)) {
    return lexer_.Error(
        fmt::format("axis {} is used twice in one type", mesh_.name(axis)));
  }
  seen->push_back(axis);
  return absl::OkStatus();
}

absl::StatusOr<Dim> ValueParser::ParseDim() {
  Dim dim;
  Token at = lexer_.peek();
  ASYRA_ASSIGN_OR_RETURN(dim.size, Int());
  if (dim.size < 0) return lexer_.ErrorAt(at, "a dimension is negative");
  // "8192@dp" is one token for the lexer when a name follows.
  if (lexer_.peek().kind == Token::kSymbol) {
    ASYRA_ASSIGN_OR_RETURN(AxisId axis, Axis(lexer_.Take()));
    dim.axes.push_back(axis);
  } else if (lexer_.TryPunct("@")) {
    ASYRA_ASSIGN_OR_RETURN(dim.axes, ParseAxes());
  }
  int64_t parts = mesh_.size(dim.axes);
  if (dim.size % parts != 0) {
    return lexer_.ErrorAt(
        at, fmt::format("size {} does not divide over {} = {} devices",
                        dim.size, AxesToString(dim.axes, mesh_), parts));
  }
  return dim;
}

absl::StatusOr<AxisId> ValueParser::Axis(const Token& name) {
  AxisId axis = mesh_.Find(name.text);
  if (axis < 0) {
    return lexer_.ErrorAt(name,
                          fmt::format("the mesh has no axis {}", name.text));
  }
  return axis;
}

absl::StatusOr<AxisList> ValueParser::ParseAxes() {
  AxisList axes;
  bool list = lexer_.TryPunct("(");
  if (list && lexer_.TryPunct(")")) return axes;
  do {
    ASYRA_ASSIGN_OR_RETURN(AxisId axis, Axis(lexer_.Take()));
    axes.push_back(axis);
  } while (list && lexer_.TryPunct(","));
  if (list) ASYRA_RETURN_IF_ERROR(Expect(")"));
  return axes;
}

absl::StatusOr<int64_t> ValueParser::Int() {
  Token token = lexer_.peek();
  int64_t value = 0;
  const char* end = token.text.data() + token.text.size();
  auto [at, error] = std::from_chars(token.text.data(), end, value);
  if (token.kind != Token::kNumber || error != std::errc() || at != end) {
    return lexer_.Error("expected an integer of 64 bits");
  }
  lexer_.Take();
  return value;
}

absl::StatusOr<double> ValueParser::Float() {
  Token token = lexer_.peek();
  double value = 0;
  if (token.kind == Token::kName && token.text == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (token.kind == Token::kName && token.text == "inf") {
    value = std::numeric_limits<double>::infinity();
  } else {
    const char* end = token.text.data() + token.text.size();
    auto [at, error] = std::from_chars(token.text.data(), end, value);
    if (token.kind != Token::kNumber || error != std::errc() || at != end) {
      return lexer_.Error("expected a number");
    }
  }
  lexer_.Take();
  return value;
}

absl::StatusOr<Ints> ValueParser::IntList() {
  ASYRA_RETURN_IF_ERROR(Expect("["));
  Ints values;
  if (lexer_.TryPunct("]")) return values;
  do {
    ASYRA_ASSIGN_OR_RETURN(int64_t value, Int());
    values.push_back(value);
  } while (lexer_.TryPunct(","));
  ASYRA_RETURN_IF_ERROR(Expect("]"));
  return values;
}

absl::StatusOr<Tensor> ValueParser::Literal() {
  ASYRA_ASSIGN_OR_RETURN(Type type, ParseType());
  if (type.num_elements() > kMaxLiteralElements) {
    return lexer_.Error(fmt::format("a literal of {} elements, at most {}",
                                    type.num_elements(), kMaxLiteralElements));
  }
  Tensor tensor(type.dtype, type.shape());
  ASYRA_RETURN_IF_ERROR(Expect("("));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (i > 0) ASYRA_RETURN_IF_ERROR(Expect(","));
    if (IsFloat(type.dtype)) {
      ASYRA_ASSIGN_OR_RETURN(double value, Float());
      tensor.Set(i, value);
    } else {
      ASYRA_ASSIGN_OR_RETURN(int64_t value, Int());
      tensor.SetInt(i, value);
    }
  }
  ASYRA_RETURN_IF_ERROR(Expect(")"));
  return tensor;
}

}  // namespace asyra
