#include "passes/pass_manager.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <regex>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "ir/verify/verifier.h"
#include "passes/pass_list.h"
#include "simulator/replay/simulate.h"

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
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    if (quoted) continue;
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

const AttrDef* FindOption(const PassRecord& pass, std::string_view name) {
  for (const AttrDef& option : pass.options) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

// Options that are not given get their defaults.
absl::Status FillDefaults(PassRun* run) {
  for (const AttrDef& option : run->pass->options) {
    if (run->options.Find(option.name) != nullptr) continue;
    if (!option.default_value.has_value()) {
      return Invalid("pass {}: option {} is missing", run->pass->name,
                     option.name);
    }
    run->options.Set(option.name, *option.default_value);
  }
  return absl::OkStatus();
}

absl::Status ParseOption(const PassRecord& pass, std::string_view text,
                         PassOptions* options) {
  size_t equal = text.find('=');
  std::string_view name = Trim(text.substr(0, equal));
  const AttrDef* option = FindOption(pass, name);
  if (option == nullptr) {
    return Invalid("pass {}: unknown option {}", pass.name, name);
  }
  std::string_view value =
      equal == std::string_view::npos ? "" : Trim(text.substr(equal + 1));
  // Words may go without quotes.
  std::string quoted;
  if (option->kind == AttrKind::kString && !value.starts_with('"')) {
    quoted = fmt::format("\"{}\"", value);
    value = quoted;
  }
  absl::StatusOr<AttrValue> parsed = ParseAttr(option->kind, value, Mesh());
  if (!parsed.ok()) {
    return Invalid("pass {}: option {}: '{}' is not of kind {}", pass.name,
                   name, value, ToString(option->kind));
  }
  options->Set(name, *std::move(parsed));
  return absl::OkStatus();
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
  ASYRA_RETURN_IF_ERROR(FillDefaults(&run));
  return run;
}

absl::Status CheckStage(const Program& program, Stage expected) {
  if (program.stage == expected) return absl::OkStatus();
  return Invalid("the program is {}, the pass takes {}",
                 ToString(program.stage), ToString(expected));
}

absl::Status VerifyAfter(const Program& program) {
  absl::Status verified = Verify(program);
  if (verified.ok()) return verified;
  return absl::InternalError(
      fmt::format("after the pass: {}", MessageOf(verified)));
}

absl::StatusOr<PassTiming> RunOne(Program& program, const PassRun& run,
                                  PassContext& context) {
  ASYRA_RETURN_IF_ERROR(CheckStage(program, run.pass->from_stage));
  size_t remarks = context.remarks.size();
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
  return PassTiming{run.pass->name,
                    changed,
                    took.count(),
                    {context.remarks.begin() + remarks, context.remarks.end()}};
}

// Prints, writes and simulates the programs between passes.
class Observer {
 public:
  explicit Observer(const PassManagerOptions& options) : options_(options) {}

  absl::Status Prepare() {
    try {  // std::regex knows no other way to refuse
      print_after_ = std::regex(options_.print_after);
    } catch (const std::regex_error&) {
      return Invalid("--print-after: '{}' is not a regular expression",
                     options_.print_after);
    }
    auto is_meant = [&](const PassRecord& pass) {
      return std::regex_match(std::string(pass.name), print_after_);
    };
    bool prints = !options_.print_after.empty();
    if (prints && !absl::c_any_of(AllPasses(), is_meant)) {
      return Invalid("--print-after: no pass has a name like '{}'",
                     options_.print_after);
    }
    if (options_.dump_dir.empty()) return absl::OkStatus();
    std::error_code error;
    std::filesystem::create_directories(options_.dump_dir, error);
    if (!error) return absl::OkStatus();
    return Invalid("--dump-dir {}: {}", options_.dump_dir, error.message());
  }

  absl::Status After(const PassTiming& timing, const Program& program,
                     const PassContext& context) {
    if (Prints(timing)) Print(Text(timing, program));
    if (options_.simulate_each && context.costs != nullptr &&
        program.stage >= Stage::kLocal) {
      double us = Simulate(program, *context.costs).makespan_us;
      Print(fmt::format("{}after {}: {} a step\n", Candidate(), timing.pass,
                        TimeText(us)));
    }
    if (options_.dump_dir.empty() || !timing.changed) return absl::OkStatus();
    return WriteFileAtomically(
        fmt::format("{}/{:04}-{}.asyra", options_.dump_dir,
                    ++std::atomic_ref<int>(*options_.dumped), timing.pass),
        {Text(timing, program)});
  }

 private:
  bool Prints(const PassTiming& timing) const {
    if (options_.print_changed && timing.changed) return true;
    return !options_.print_after.empty() &&
           std::regex_match(std::string(timing.pass), print_after_);
  }

  std::string Candidate() const {
    if (options_.candidate.empty()) return "";
    return fmt::format("// candidate: {}\n", options_.candidate);
  }

  std::string Text(const PassTiming& timing, const Program& program) const {
    return fmt::format("{}// after {}{}\n{}", Candidate(), timing.pass,
                       timing.changed ? "" : " (changed nothing)",
                       ToString(program));
  }

  void Print(const std::string& text) const {
    if (options_.print) {
      options_.print(text);
    } else {
      std::fputs(text.c_str(), stderr);
    }
  }

  const PassManagerOptions& options_;
  std::regex print_after_;
};

}  // namespace

PassRun MakePass(std::string_view name, const PassOptions& options) {
  const PassRecord* pass = FindPass(name);
  ASYRA_CHECK(pass != nullptr);
  PassRun run{pass, options};
  for (const auto& [option, value] : options) {
    const AttrDef* known = FindOption(*pass, option);
    ASYRA_CHECK(known != nullptr && known->kind == KindOf(value));
  }
  ASYRA_CHECK(FillDefaults(&run).ok());
  return run;
}

absl::StatusOr<Pipeline> ParsePipeline(std::string_view text) {
  Pipeline runs;
  for (std::string_view part : SplitList(text)) {
    ASYRA_ASSIGN_OR_RETURN(PassRun run, ParseRun(part));
    runs.push_back(std::move(run));
  }
  return runs;
}

std::string ToString(const Pipeline& pipeline) {
  std::vector<std::string> passes;
  for (const PassRun& run : pipeline) {
    std::vector<std::string> options;
    for (const AttrDef& option : run.pass->options) {
      const AttrValue& value = *run.options.Find(option.name);
      if (option.default_value.has_value() && value == *option.default_value) {
        continue;
      }
      options.push_back(
          fmt::format("{}={}", option.name, ToString(value, Mesh())));
    }
    std::string text(run.pass->name);
    if (!options.empty()) text += "{" + absl::StrJoin(options, ", ") + "}";
    passes.push_back(std::move(text));
  }
  return absl::StrJoin(passes, ", ");
}

absl::Status RunPasses(Program& program, const Pipeline& pipeline,
                       PassContext& context, const PassManagerOptions& options,
                       std::vector<PassTiming>* timings) {
  Observer observer(options);
  ASYRA_RETURN_IF_ERROR(observer.Prepare());
  if (options.verify_each) {
    ASYRA_RETURN_IF_ERROR(Annotate(Verify(program), "before the first pass"));
  }
  for (const PassRun& run : pipeline) {
    absl::StatusOr<PassTiming> timing = RunOne(program, run, context);
    if (!timing.ok()) return Annotate(timing.status(), run.pass->name);
    if (options.verify_each || &run == &pipeline.back()) {
      ASYRA_RETURN_IF_ERROR(Annotate(VerifyAfter(program), run.pass->name));
    }
    if (timings != nullptr) timings->push_back(*timing);
    ASYRA_RETURN_IF_ERROR(observer.After(*timing, program, context));
  }
  return absl::OkStatus();
}

absl::Status RunPasses(Program& program, std::string_view pipeline,
                       PassContext& context, const PassManagerOptions& options,
                       std::vector<PassTiming>* timings) {
  ASYRA_ASSIGN_OR_RETURN(Pipeline runs, ParsePipeline(pipeline));
  return RunPasses(program, runs, context, options, timings);
}

}  // namespace asyra
