// Programs with one bug planted into them, and what the verifier says.
#pragma once

#include <string>
#include <string_view>

#include "ir/parser.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "tests/support/parse.h"

namespace asyra {

inline std::string ErrorOf(const Program& program) {
  absl::Status status = Verify(program);
  if (status.ok()) return "no error";
  return std::string(MessageOf(status));
}

// The error after replacing `from`, which must be there.
inline std::string ErrorWith(std::string_view text, std::string_view from,
                             std::string_view to) {
  std::string changed(text);
  size_t at = changed.find(from);
  if (at == std::string::npos) return "pattern not found";
  changed.replace(at, from.size(), to);
  absl::StatusOr<Program> program = ParseProgram(changed);
  if (!program.ok()) return "does not parse: " + program.status().ToString();
  return ErrorOf(*program);
}

// The text with `from`, which must be there, replaced.
inline std::string Replaced(std::string_view text, std::string_view from,
                            std::string_view to) {
  std::string changed(text);
  size_t at = changed.find(from);
  ASYRA_CHECK(at != std::string::npos);
  return changed.replace(at, from.size(), to);
}

}  // namespace asyra
