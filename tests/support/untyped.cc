#include "tests/support/untyped.h"

#include <map>
#include <sstream>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "ir/interpreter.h"
#include "ir/parser.h"
#include "ir/support/status.h"
#include "ir/weights/weight_store.h"
#include "tests/support/fixture.h"

namespace asyra {
namespace {

bool IsNameChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

// Writes the typed text form statement by statement.
class Writer {
 public:
  absl::Status Line(std::string_view line) {
    std::istringstream words{std::string(line)};
    std::string first, second, third;
    words >> first >> second >> third;
    if (first.empty() || first.starts_with("//")) return absl::OkStatus();
    if (first == "in" || first == "weight" || first == "state") {
      types_[second] = third;
      inputs_ += fmt::format("{}%{}: {}{}", inputs_.empty() ? "" : ", ", second,
                             third, first == "in" ? "" : " " + first);
      return absl::OkStatus();
    }
    if (first == "out") return Out(second);
    size_t equals = line.find('=');
    if (second != "=") return Invalid("'{}' is no statement", line);
    return Statement(first, line.substr(equals + 1));
  }

  std::string Text() const {
    return fmt::format(
        "asyra 1 global\nprogram @test({}) -> ({}) {{\n{}return {}\n}}\n",
        inputs_, output_types_, body_, outputs_);
  }

 private:
  absl::Status Out(const std::string& name) {
    if (!types_.contains(name)) return Invalid("no value {}", name);
    std::string_view comma = outputs_.empty() ? "" : ", ";
    output_types_ += fmt::format("{}{}", comma, types_[name]);
    outputs_ += fmt::format("{}%{}", comma, name);
    return absl::OkStatus();
  }

  absl::Status Statement(const std::string& name, std::string_view text) {
    std::string call(text);
    call.erase(0, call.find_first_not_of(' '));
    if (std::isdigit(static_cast<unsigned char>(call[0])) || call[0] == '-') {
      std::istringstream words(call);
      std::string number, dtype;
      words >> number >> dtype;
      if (dtype.empty()) dtype = "f32";
      call = fmt::format("constant() {{value={}[]({})}}", dtype, number);
    }
    size_t open = call.find('('), close = call.find(')');
    std::string operands, shown;
    for (size_t i = open; i <= close;) {
      if (!IsNameChar(call[i])) {
        operands += call[i];
        shown += call[i++];
        continue;
      }
      size_t end = i;
      while (IsNameChar(call[end])) ++end;
      std::string operand = call.substr(i, end - i);
      if (!types_.contains(operand)) return Invalid("no value {}", operand);
      operands += types_[operand];
      shown += "%" + operand;
      i = end;
    }
    std::string head = call.substr(0, open), tail = call.substr(close + 1);
    ASYRA_ASSIGN_OR_RETURN(ParsedCall parsed,
                           ParseCall(head + operands + tail, Mesh()));
    auto types = InferTypes(*parsed.def, parsed.attrs, parsed.operands, Mesh());
    if (!types.ok()) return Annotate(types.status(), name);
    std::vector<std::string> names = absl::StrSplit(name, ',');
    if (names.size() != types->size()) {
      return Invalid("{}: {} names, the op has {} results", name, names.size(),
                     types->size());
    }
    std::string shown_types;
    for (size_t i = 0; i < names.size(); ++i) {
      types_[names[i]] = ToString((*types)[i], Mesh());
      shown_types += (i == 0 ? "" : ", ") + types_[names[i]];
    }
    body_ += fmt::format("%{} = {}{}{} : {}\n", fmt::join(names, ", %"), head,
                         shown, tail, shown_types);
    return absl::OkStatus();
  }

  std::string inputs_, body_, outputs_, output_types_;
  absl::flat_hash_map<std::string, std::string> types_;
};

}  // namespace

absl::StatusOr<Program> ParseUntyped(std::string_view text) {
  Writer writer;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    ASYRA_RETURN_IF_ERROR(writer.Line(line));
  }
  return ParseProgram(writer.Text());
}

int CountOps(const Program& program, std::string_view op) {
  int count = 0;
  for (const Op& candidate : program.ops) count += candidate.def->name == op;
  return count;
}

std::string OpCounts(const Program& program) {
  std::map<std::string_view, int> counts;
  for (const Op& op : program.ops) ++counts[op.def->name];
  std::string text;
  for (auto [name, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, count);
  }
  return text;
}

absl::Status SameMeaning(const Program& before, const Program& after,
                         uint64_t seed, double tolerance) {
  std::vector<Tensor> inputs = RandomInputs(before, seed, 4);
  absl::flat_hash_map<std::string, Tensor> by_name;
  for (size_t i = 0; i < inputs.size(); ++i) {
    by_name[before.value_name(before.inputs[i].value)] = inputs[i];
  }
  std::vector<Tensor> matched;
  for (const Input& input : after.inputs) {
    auto found = by_name.find(after.value_name(input.value));
    matched.push_back(found == by_name.end() ? Tensor() : found->second);
  }
  auto want = Interpret(before, inputs);
  if (!want.ok()) return Annotate(want.status(), "before");
  auto got = Interpret(after, matched);
  if (!got.ok()) return Annotate(got.status(), "after");
  return Annotate(SameOutputs(*want, *got, tolerance),
                  fmt::format("seed {}", seed));
}

}  // namespace asyra
