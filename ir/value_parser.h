// Parses the parts of statements of the text form: types, axes, numbers, values
// of attributes. Part of ir/parser.cc.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "ir/attr.h"
#include "ir/lexer.h"
#include "ir/mesh.h"
#include "ir/type.h"

namespace asyra {

// Each function takes what it reads from the lexer; errors name line and
// column.
class ValueParser {
 public:
  explicit ValueParser(std::string_view text, Mesh mesh = {})
      : lexer_(text), mesh_(std::move(mesh)) {}

  // Nothing is left.
  absl::Status End();
  absl::StatusOr<Type> ParseType();
  // Parses an attribute, except a body, which is without a name.
  absl::StatusOr<AttrValue> ParseAttr(AttrKind kind);
  // A string without quotes.
  absl::StatusOr<AttrValue> ParseWord();

 protected:
  absl::Status Expect(std::string_view punct);
  absl::StatusOr<int64_t> Int();
  // "[2, 3]".
  absl::StatusOr<Ints> IntList();

  Lexer lexer_;
  Mesh mesh_;  // whose axes types name

 private:
  absl::Status Once(AxisId axis, AxisList* seen);
  absl::StatusOr<Dim> ParseDim();
  absl::StatusOr<AxisId> Axis(const Token& name);
  absl::StatusOr<AxisList> ParseAxes();
  absl::StatusOr<double> Float();
  absl::StatusOr<Tensor> Literal();
};

}  // namespace asyra
