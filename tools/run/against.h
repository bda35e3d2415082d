// Programs that asyra-run runs in turn with the requested one, to compare their
// times.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "tools/compile.h"

namespace asyra {

struct AgainstProgram {
  std::string name;
  Program program;
  std::vector<Tensor> inputs;  // as RunCase has them
};

// Loads the programs of `names`: "unscheduled", which is `partitioned`, or
// program files. Inputs are those of `program` by their names.
// Errors: there is no `partitioned`; a file that cannot be read; another number
// of devices; an input that `program` lacks or has in another type.
absl::StatusOr<std::vector<AgainstProgram>> LoadAgainst(
    absl::Span<const std::string> names, const Program& program,
    const Program* partitioned, absl::Span<const Tensor> inputs);

// The step of each program on the machine of `options`. Errors: that machine's;
// a program before stage local.
absl::StatusOr<std::vector<double>> PredictUs(
    absl::Span<const Program* const> programs, const CompileFlags& options);

}  // namespace asyra
