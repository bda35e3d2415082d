#include "tests/support/fixture.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <random>

#include "fmt/format.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"
#include "ir/weights/weight_store.h"
#include "tests/support/differences.h"

namespace asyra {
namespace {

constexpr std::string_view kLine = "// ----\n";

bool TakePrefix(std::string_view* text, std::string_view prefix) {
  if (text->substr(0, prefix.size()) != prefix) return false;
  text->remove_prefix(prefix.size());
  return true;
}

std::string_view TakeLine(std::string_view* text) {
  size_t end = std::min(text->find('\n'), text->size());
  std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

absl::Status ParseTolerance(const std::string& path, std::string_view what,
                            std::string_view text, double* tolerance) {
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, *tolerance);
  if (error == std::errc() && at == end) return absl::OkStatus();
  return Invalid("{}: {} is no number: {}", path, what, text);
}

absl::Status ParseDirectives(std::string_view text, Fixture* fixture) {
  std::string_view line = TakeLine(&text);
  if (!TakePrefix(&line, "// RUN: ")) {
    return Invalid("{}: the first line is not '// RUN: PASSES'", fixture->path);
  }
  fixture->passes = line;
  for (line = TakeLine(&text); TakePrefix(&line, "// ");
       line = TakeLine(&text)) {
    if (TakePrefix(&line, "NO EXECUTION: ")) {
      fixture->execute = false;
    } else if (TakePrefix(&line, "TYPES CHANGE: ")) {
      fixture->types_change = true;
    } else if (TakePrefix(&line, "TOLERANCE: ")) {
      ASYRA_RETURN_IF_ERROR(ParseTolerance(fixture->path, "TOLERANCE", line,
                                           &fixture->tolerance));
    } else if (TakePrefix(&line, "GRADIENTS: ")) {
      ASYRA_RETURN_IF_ERROR(ParseTolerance(fixture->path, "GRADIENTS", line,
                                           &fixture->gradient_tolerance));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckError(const Fixture& fixture, const absl::Status& status) {
  for (const std::string& error : fixture.errors) {
    if (status.ok()) return Invalid("no error, expected: {}", error);
    if (MessageOf(status).find(error) == std::string_view::npos) {
      return Invalid("the error is:\n  {}\nexpected in it:\n  {}",
                     MessageOf(status), error);
    }
  }
  return absl::OkStatus();
}

// Where two texts part, as lines.
std::string Difference(std::string_view is, std::string_view should) {
  int line = 1;
  while (!is.empty() || !should.empty()) {
    std::string_view a = TakeLine(&is), b = TakeLine(&should);
    if (a != b) {
      return fmt::format("line {} is\n  {}\nexpected\n  {}\n", line, a, b);
    }
    ++line;
  }
  return "they differ in the last line's end";
}

absl::Status Execute(const Program& before, const Program& after,
                     const Fixture& fixture) {
  std::vector<Tensor> inputs = SmallIntegerInputs(before);
  absl::StatusOr<std::vector<Tensor>> expected = Interpret(before, inputs);
  if (!expected.ok()) return Annotate(expected.status(), "run before");
  if (fixture.types_change) inputs = SmallIntegerInputs(after);
  absl::StatusOr<std::vector<Tensor>> actual = Interpret(after, inputs);
  if (!actual.ok()) return Annotate(actual.status(), "run after");
  if (fixture.gradient_tolerance > 0) {
    // The gradients come behind what was there.
    actual->resize(std::min(actual->size(), expected->size()));
    ASYRA_RETURN_IF_ERROR(
        GradientsAreDifferences(after, inputs, fixture.gradient_tolerance));
  }
  return SameOutputs(*expected, *actual, fixture.tolerance,
                     fixture.types_change);
}

struct Outcome {
  Program before, after;
  std::string text;
};

absl::StatusOr<Outcome> Run(const Fixture& fixture, const RunPassesFn& run) {
  Outcome outcome;
  ASYRA_ASSIGN_OR_RETURN(outcome.before, ParseProgram(fixture.input));
  ASYRA_RETURN_IF_ERROR(Verify(outcome.before));
  outcome.after = outcome.before;
  if (fixture.passes != "verify") {
    ASYRA_RETURN_IF_ERROR(run(outcome.after, fixture.passes));
    ASYRA_RETURN_IF_ERROR(Verify(outcome.after));
  }
  outcome.text = ToString(outcome.after);
  return outcome;
}

absl::Status CheckRoundTrip(const std::string& text) {
  absl::StatusOr<Program> again = ParseProgram(text);
  if (!again.ok()) return Annotate(again.status(), "what it prints");
  std::string twice = ToString(*again);
  if (twice == text) return absl::OkStatus();
  return Invalid("it does not print as it reads: {}", Difference(twice, text));
}

std::string Rewritten(const Fixture& fixture, const RunPassesFn& run) {
  std::string text = fixture.input + std::string(kLine);
  absl::StatusOr<Outcome> outcome = Run(fixture, run);
  if (outcome.ok()) return text + outcome->text;
  return text + fmt::format("// ERROR: {}\n", MessageOf(outcome.status()));
}

}  // namespace

absl::StatusOr<Fixture> ParseFixture(std::string_view text, std::string path) {
  Fixture fixture;
  fixture.path = std::move(path);
  ASYRA_RETURN_IF_ERROR(ParseDirectives(text, &fixture));
  size_t at = text.find(kLine);
  if (at == std::string_view::npos) {
    return Invalid("{}: there is no line '// ----'", fixture.path);
  }
  fixture.input = text.substr(0, at);
  text.remove_prefix(at + kLine.size());
  fixture.expected = text;
  if (text.substr(0, 9) != "// ERROR:") return fixture;
  fixture.expected.clear();
  while (!text.empty()) {
    std::string_view line = TakeLine(&text);
    if (!TakePrefix(&line, "// ERROR: ") || line.empty()) {
      return Invalid("{}: '{}' is not '// ERROR: SUBSTRING'", fixture.path,
                     line);
    }
    fixture.errors.emplace_back(line);
  }
  return fixture;
}

std::vector<std::string> FindFixtures(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".asyra") {
      paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

absl::Status CheckFixture(const Fixture& fixture, const RunPassesFn& run) {
  absl::StatusOr<Outcome> outcome = Run(fixture, run);
  if (!fixture.errors.empty()) return CheckError(fixture, outcome.status());
  if (!outcome.ok()) return outcome.status();
  ASYRA_RETURN_IF_ERROR(CheckRoundTrip(outcome->text));
  if (outcome->text != fixture.expected) {
    return Invalid("{}the result is\n{}",
                   Difference(outcome->text, fixture.expected), outcome->text);
  }
  if (fixture.passes == "verify" || !fixture.execute) return absl::OkStatus();
  return Execute(outcome->before, outcome->after, fixture);
}

absl::Status CheckFixtureFile(const std::string& path, const RunPassesFn& run,
                              bool update) {
  ASYRA_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  ASYRA_ASSIGN_OR_RETURN(Fixture fixture, ParseFixture(text, path));
  absl::Status status = CheckFixture(fixture, run);
  if (status.ok() || !update) return status;
  std::string rewritten = Rewritten(fixture, run);
  ASYRA_RETURN_IF_ERROR(WriteFileAtomically(path, {rewritten}));
  // What is not a matter of text stays an error.
  ASYRA_ASSIGN_OR_RETURN(fixture, ParseFixture(rewritten, path));
  return CheckFixture(fixture, run);
}

std::vector<Tensor> SmallIntegerInputs(const Program& program) {
  std::mt19937_64 random(7);
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    const Type& type = program.type(input.value);
    Tensor tensor(type.dtype, program.GivenShape(input));
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      int64_t draw = static_cast<int64_t>(random() % 7);
      if (IsFloat(type.dtype)) {
        tensor.Set(i, static_cast<double>(draw - 3));
      } else {
        // Integers are mostly indices, of tables with few rows.
        tensor.SetInt(i, type.dtype == DType::kBool ? draw & 1 : draw & 3);
      }
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

absl::Status SameOutputs(const std::vector<Tensor>& before,
                         const std::vector<Tensor>& after, double tolerance,
                         bool types_change) {
  if (before.size() != after.size()) {
    return Invalid("{} outputs before, {} after", before.size(), after.size());
  }
  for (size_t i = 0; i < before.size(); ++i) {
    bool same_type = types_change || before[i].dtype() == after[i].dtype();
    if (!same_type || before[i].shape() != after[i].shape()) {
      return Invalid(
          "output {} is {}{} before and {}{} after", i,
          ToString(before[i].dtype()), ShapeToString(before[i].shape()),
          ToString(after[i].dtype()), ShapeToString(after[i].shape()));
    }
    for (int64_t k = 0; k < before[i].num_elements(); ++k) {
      double a = before[i].Get(k), b = after[i].Get(k);
      bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                  std::abs(a - b) <= tolerance * (1 + std::abs(a));
      if (!same) {
        return Invalid("output {} element {} is {} before and {} after", i, k,
                       a, b);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace asyra
