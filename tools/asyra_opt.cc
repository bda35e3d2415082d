// asyra-opt: compiles a model to a scheduled program.
#include <cstdio>
#include <filesystem>

#include "CLI/CLI.hpp"
#include "ir/printer.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/weight_store.h"
#include "passes/catalogue.h"
#include "simulator/page.h"
#include "simulator/trace.h"
#include "tools/compile.h"
#include "tools/report.h"
#include "tools/run_tool.h"

namespace asyra {
namespace {

struct Flags {
  CompileOptions compile;
  std::string output;
  std::string report = "text";
  bool print_plan = false;
  std::string trace, html;
};

// The weights first: a program that is there has its weights. Nor are there
// weights without it.
absl::Status WriteProgram(const Program& program, const std::string& path) {
  bool has_weights = program.weights != nullptr && program.weights->size() > 0;
  if (has_weights) {
    ASYRA_RETURN_IF_ERROR(WriteWeights(*program.weights, WeightPathFor(path)));
  }
  absl::Status written = WriteFileAtomically(path, {ToString(program)});
  if (!written.ok() && has_weights) {
    std::filesystem::remove(WeightPathFor(path));
  }
  return written;
}

// Where it was scheduled, the step before that and after it.
std::string HtmlPage(const Flags& flags, const CompileResult& result) {
  std::vector<Profile> profiles;
  if (result.schedule.has_value()) {
    profiles.push_back(MakeProfile(
        *result.partitioned, result.schedule->baseline, *result.costs,
        {.model = flags.compile.model + ", partitioned"}));
  }
  profiles.push_back(MakeProfile(result.program, *result.simulated,
                                 *result.costs,
                                 {.model = flags.compile.model}));
  return ProfilePage(profiles);
}

absl::Status WriteSimulated(const Flags& flags, const CompileResult& result) {
  for (auto [flag, path] :
       {std::pair{"--trace", &flags.trace}, std::pair{"--html", &flags.html}}) {
    if (path->empty() || result.simulated.has_value()) continue;
    return Invalid("{}: a program of stage {} is not simulated", flag,
                   ToString(result.program.stage));
  }
  if (!flags.trace.empty()) {
    ASYRA_RETURN_IF_ERROR(WriteFileAtomically(
        flags.trace, {WriteChromeTrace(result.program, *result.simulated,
                                       result.costs->machine())}));
  }
  if (flags.html.empty()) return absl::OkStatus();
  return WriteFileAtomically(flags.html, {HtmlPage(flags, result)});
}

absl::Status Run(const Flags& flags) {
  ASYRA_ASSIGN_OR_RETURN(CompileResult result, Compile(flags.compile));
  if (!flags.output.empty()) {
    ASYRA_RETURN_IF_ERROR(WriteProgram(result.program, flags.output));
  }
  ASYRA_RETURN_IF_ERROR(WriteSimulated(flags, result));
  if (flags.print_plan && !result.partitioned.has_value()) {
    return Invalid("--print-plan: a program of stage {} is not sharded",
                   ToString(result.program.stage));
  }
  ReportOptions options{.plan = flags.print_plan};
  std::string report = flags.report == "json"
                           ? JsonReport(flags.compile, result, options)
                           : TextReport(flags.compile, result, options);
  std::fputs(report.c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace
}  // namespace asyra

int main(int argc, char** argv) {
  asyra::Flags flags;
  CLI::App app(
      "Compiles a model: shards it over a mesh, tiles and reorders "
      "it so that communication hides behind computation, and "
      "reports what the simulator says.",
      "asyra-opt");
  asyra::AddModelFlag(app, &flags.compile);
  asyra::AddCompileFlags(app, &flags.compile);
  app.add_option("-o,--output", flags.output,
                 "writes the program here, its weights beside it");
  app.add_flag_callback(
      "--list-passes",
      [] {
        std::fputs(asyra::PassCatalogue().c_str(), stdout);
        throw CLI::Success();
      },
      "prints the passes and their options");
  app.add_flag("--print-plan", flags.print_plan,
               "prints how weights and layers are sharded, and what each "
               "collective moves");
  app.add_option("--trace", flags.trace,
                 "writes the simulated step here, for ui.perfetto.dev");
  app.add_option("--html", flags.html,
                 "writes a page for a browser here: the step before and after "
                 "scheduling");
  app.add_option("--report", flags.report, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  return asyra::RunTool(app, argc, argv,
                        [&flags] { return asyra::Run(flags); });
}
