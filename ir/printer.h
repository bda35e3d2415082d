// The text form; ir/README.md is its reference.
#pragma once

#include <string>

#include "ir/program.h"

namespace asyra {

// Parses back to an equal program and prints the same again.
std::string ToString(const Program& program);
// One op as in the text of the program, but with a body on the same line;
// without newline.
std::string ToString(const Program& program, const Op& op);
// The same for errors: of its operands, results and statements it has three,
// then "and 5 more".
std::string Brief(const Program& program, const Op& op);
std::string ToString(const AttrValue& value, const Mesh& mesh);
// The attributes of an op over operands of these types: " {dim=1}", nothing
// where all are defaults. A body, whose types follow from the operands', is on
// one line.
std::string AttrsToString(const OpDef& def, const AttrMap& attrs,
                          absl::Span<const Type> operands, const Mesh& mesh);
// "f32[2,2](1, 2, 3, 4)".
std::string ToString(const Tensor& tensor);

}  // namespace asyra
