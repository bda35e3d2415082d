#include "passes/pass_manager.h"

#include <chrono>
#include <cstdio>
#include <regex>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "ir/verifier.h"
#include "passes/pass_list.h"

namespace asyra {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Cuts at commas outside of braces, brackets and quotes.
std::vector<std::string_view> SplitList(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  bool quoted = false;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0 && !quoted)) {
      std::string_view part = Trim(text.substr(start, i - start));
      if (!part.empty()) parts.push_back(part);
      start = i + 1;
      continue;
    }
    if (text[i] == '"') quoted = !quoted;
    if (text[i] == '{' || text[i] == '[' || text[i] == '(') ++depth;
    if (text[i] == '}' || text[i] == ']' || text[i] == ')') --depth;
  }
  return parts;
}

std::string KnownPasses() {
  std::string names;
  for (const PassRecord& pass : AllPasses()) {
    if (!names.empty()) names += ", ";
    names += pass.name;
  }
  return names;
}

absl::Status ParseOption(const PassRecord& pass, std::string_view text,
                         PassOptions* options) {
  size_t equal = text.find('=');
  std::string_view name = Trim(text.substr(0, equal));
  for (const AttrDef& option : pass.options) {
    if (option.name != name) continue;
    std::string_view value =
        equal == std::string_view::npos ? "" : Trim(text.substr(equal + 1));
    // Words may go without quotes.
    std::string quoted;
    if (option.kind == AttrKind::kString && !value.starts_with('"')) {
      quoted = fmt::format("\"{}\"", value);
      value = quoted;
    }
    absl::StatusOr<AttrValue> parsed = ParseAttr(option.kind, value, Mesh());
    if (!parsed.ok()) {
      return Invalid("pass {}: option {}: '{}' is not of kind {}", pass.name,
                     name, value, ToString(option.kind));
    }
    options->Set(name, *std::move(parsed));
    return absl::OkStatus();
  }
  return Invalid("pass {}: unknown option {}", pass.name, name);
}

absl::StatusOr<PassRun> ParseRun(std::string_view text) {
  size_t brace = text.find('{');
  std::string_view name = Trim(text.substr(0, brace));
  const PassRecord* pass = FindPass(name);
  if (pass == nullptr) {
    return Invalid("unknown pass {}, known are {}", name, KnownPasses());
  }
  PassRun run{pass, {}};
  if (brace != std::string_view::npos) {
    if (text.back() != '}') return Invalid("pass {}: expected '}}'", name);
    std::string_view list = text.substr(brace + 1, text.size() - brace - 2);
    for (std::string_view option : SplitList(list)) {
      ASYRA_RETURN_IF_ERROR(ParseOption(*pass, option, &run.options));
    }
  }
  for (const AttrDef& option : pass->options) {
    if (run.options.Find(option.name) != nullptr) continue;
    if (!option.default_value.has_value()) {
      return Invalid("pass {}: option {} is missing", name, option.name);
    }
    run.options.Set(option.name, *option.default_value);
  }
  return run;
}

absl::Status CheckStage(const Program& program, Stage expected) {
  if (program.stage == expected) return absl::OkStatus();
  return Invalid("the program is {}, the pass takes {}",
                 ToString(program.stage), ToString(expected));
}

absl::StatusOr<PassTiming> RunOne(Program& program, const PassRun& run,
                                  PassContext& context) {
  ASYRA_RETURN_IF_ERROR(CheckStage(program, run.pass->from_stage));
  auto begin = std::chrono::steady_clock::now();
  ASYRA_ASSIGN_OR_RETURN(bool changed,
                         run.pass->fn(program, run.options, context));
  std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - begin;
  if (program.stage != run.pass->to_stage) {
    return absl::InternalError(fmt::format("left stage {}, its record says {}",
                                           ToString(program.stage),
                                           ToString(run.pass->to_stage)));
  }
  absl::Status verified = Verify(program);
  if (!verified.ok()) {
    return absl::InternalError(
        fmt::format("after the pass: {}", MessageOf(verified)));
  }
  return PassTiming{run.pass->name, changed, took.count()};
}

}  // namespace

absl::StatusOr<std::vector<PassRun>> ParsePipeline(std::string_view text) {
  std::vector<PassRun> runs;
  for (std::string_view part : SplitList(text)) {
    ASYRA_ASSIGN_OR_RETURN(PassRun run, ParseRun(part));
    runs.push_back(std::move(run));
  }
  return runs;
}

absl::Status RunPasses(Program& program, std::string_view pipeline,
                       PassContext& context, const PassManagerOptions& options,
                       std::vector<PassTiming>* timings) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<PassRun> runs, ParsePipeline(pipeline));
  std::regex print_after;
  try {  // std::regex knows no other way to refuse
    print_after = std::regex(options.print_after);
  } catch (const std::regex_error&) {
    return Invalid("--print-after: '{}' is not a regular expression",
                   options.print_after);
  }
  ASYRA_RETURN_IF_ERROR(Annotate(Verify(program), "before the first pass"));
  for (const PassRun& run : runs) {
    absl::StatusOr<PassTiming> timing = RunOne(program, run, context);
    if (!timing.ok()) return Annotate(timing.status(), run.pass->name);
    if (timings != nullptr) timings->push_back(*timing);
    if (options.print_after.empty() ||
        !std::regex_match(std::string(run.pass->name), print_after)) {
      continue;
    }
    std::string text = fmt::format("// after {}{}\n{}", run.pass->name,
                                   timing->changed ? "" : " (changed nothing)",
                                   ToString(program));
    if (options.print) {
      options.print(text);
    } else {
      std::fputs(text.c_str(), stderr);
    }
  }
  return absl::OkStatus();
}

}  // namespace asyra
