// Text fixtures: what a pass does, as a program before and one after.
//
//   // RUN: tile{parts=2}, reorder
//   // TOLERANCE: 1e-5
//   asyra 1 local
//   ...
//   // ----
//   asyra 1 local
//   ...
//
// The part above the line is parsed, verified, run through the passes and
// verified again; the part below is the exact text of the result, or lines
// "// ERROR: substring" that the error must contain. `// RUN: verify` runs no
// pass: the program must print as written.
//
// A fixture of passes is executed as well, before and after, on small integer
// inputs, and the outputs must agree: exactly, or to TOLERANCE, absolute and
// relative. "// NO EXECUTION: reason" leaves that out. With "// TYPES CHANGE:
// reason" inputs are of the types that each program has, and outputs agree in
// their numbers. With "// GRADIENTS: TOLERANCE" outputs of one name agree, and
// each output X.grad is what differences of the first output tell when input X
// changes a little: such programs are best written in f64.
//
// With ASYRA_UPDATE_FIXTURES=1 in the environment the part below the line is
// rewritten by what happened.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

struct Fixture {
  std::string path;
  std::string passes;  // "verify", or the text of a pipeline
  double tolerance = 0;
  double gradient_tolerance = 0;  // above 0 with GRADIENTS
  bool execute = true, types_change = false;
  std::string input;  // with its comments, so that lines count as in the file
  std::string expected;  // text of a program; empty when it should fail
  std::vector<std::string> errors;  // what the error must contain
};

// Errors name the file and the line that is missing or unknown.
absl::StatusOr<Fixture> ParseFixture(std::string_view text, std::string path);

// Paths of all *.asyra below `folder`, sorted.
std::vector<std::string> FindFixtures(const std::string& folder);

using RunPassesFn =
    std::function<absl::Status(Program& program, std::string_view passes)>;

// Ok when everything above holds; otherwise an error that says what does not,
// with the text that came out.
absl::Status CheckFixture(const Fixture& fixture, const RunPassesFn& run);

// Reads, checks and, when asked to, updates the file.
absl::Status CheckFixtureFile(const std::string& path, const RunPassesFn& run,
                              bool update);

// Inputs of small integers, equal for equal input types.
std::vector<Tensor> SmallIntegerInputs(const Program& program);
// Whether two runs gave the same, to `tolerance`; says where they differ.
absl::Status SameOutputs(const std::vector<Tensor>& before,
                         const std::vector<Tensor>& after, double tolerance,
                         bool types_change = false);

}  // namespace asyra
