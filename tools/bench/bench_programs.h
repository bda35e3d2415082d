// The calls of the programs that a model may be compiled to: what asyra-bench
// measures first.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "executor/bench/program_calls.h"
#include "tools/compile.h"

namespace asyra {

struct BenchModel {
  std::string name;
  RaisedModel raised;
};

// A list for each program: what the costs of `flags.machine` choose comes
// first, then every form that is compared unasked. Errors: models that do not
// compile; a form that does not fit or does not cut is left out.
absl::StatusOr<std::vector<ProgramCalls>> CallsOfModels(
    const CompileFlags& flags, absl::Span<const BenchModel> models);

}  // namespace asyra
