// Feeds arbitrary bytes to the parser of the text form: it may refuse, it may
// not crash, and what it accepts must print back to itself. The verifier sees
// what the parser accepts.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace asyra;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  absl::StatusOr<Program> program = ParseProgram(text);
  if (!program.ok()) return 0;
  std::string printed = ToString(*program);
  Program again = ASYRA_VALUE(ParseProgram(printed));
  ASYRA_CHECK(ToString(again) == printed);
  ASYRA_CHECK(Verify(*program) == Verify(again));
  return 0;
}
