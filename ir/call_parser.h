// Parses the use of an op: its name, its attributes, and the body of a fusion.
// Part of ir/parser.cc.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "ir/body.h"
#include "ir/parser.h"
#include "ir/value_parser.h"

namespace asyra {

class CallParser : public ValueParser {
 public:
  using ValueParser::ValueParser;

  // "NAME(TYPE, ...) {ATTRS}"
  absl::StatusOr<ParsedCall> ParseCall();

 protected:
  absl::StatusOr<const OpDef*> OpName();
  // Parses the attributes of an op over operands of these types, from which
  // those of a body follow.
  absl::StatusOr<AttrMap> Attrs(const OpDef& def,
                                absl::Span<const Type> operands);

 private:
  // The numbers of a body's values.
  using BodyNames = absl::flat_hash_map<std::string, int>;

  // "{%2 = add(%0, %1) : f32[8] return %2}", where a ';' may end a statement.
  // Errors of the whole body are reported at its end.
  absl::StatusOr<Body> ParseBody(const OpDef& def,
                                 absl::Span<const Type> operands);
  absl::Status BodyStatement(const OpDef& of, Body* body,
                             std::vector<Type>* types, BodyNames* names);
  absl::StatusOr<int> BodyUse(const OpDef& of, const BodyNames& names);
  absl::Status ParseNamedAttr(const OpDef& def, AttrMap* attrs);
};

}  // namespace asyra
