// Reads the text form. Errors name line and column. The result is not yet
// verified: see ir/verify/verifier.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

absl::StatusOr<Program> ParseProgram(std::string_view text);

// "bf16[8192@dp, 4096] partial(tp)".
absl::StatusOr<Type> ParseType(std::string_view text, const Mesh& mesh);

// One use of an op by types alone, "matmul(f32[2,3], f32[3,4]) {a=b}": the
// form of OpDef::samples.
struct ParsedCall {
  const OpDef* def;
  std::vector<Type> operands;
  AttrMap attrs;  // complete
};
absl::StatusOr<ParsedCall> ParseCall(std::string_view text, const Mesh& mesh);

// The value of an attribute or option of that kind: "[1, 2]", "(dp,tp)".
absl::StatusOr<AttrValue> ParseAttr(AttrKind kind, std::string_view text,
                                    const Mesh& mesh);

}  // namespace asyra
