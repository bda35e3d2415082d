// asyra-bench: measures a machine for the simulator, the calls of given
// programs first.
#include <filesystem>

#include "CLI/CLI.hpp"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_files.h"
#include "tools/bench/doctor.h"
#include "tools/given_flags.h"
#include "tools/idle_flags.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/run/cache_warning.h"
#include "tools/run_tool.h"
#include "tools/standard_output.h"
#include "tools/train/train_flags.h"

namespace asyra {
namespace {

struct Flags {
  BenchOptions bench;
  bool train = false;
  TrainOptions train_options;
  std::string table, machine_out;
  bool doctor = false, json = false;
  std::vector<std::string> given, of_compiling;
};

// Names the flags of a machine, which calls of no model read too.
bool IsOfMachine(const std::string& flag) {
  return flag == "--machine" || flag == "--set" || flag == "--nodes";
}

absl::Status CheckMachineIsRead(const Flags& flags) {
  const BenchOptions& bench = flags.bench;
  if (!bench.models.empty()) return absl::OkStatus();
  bool is_written = !flags.machine_out.empty();
  bool is_base = is_written && bench.device == "cuda";
  for (const std::string& flag : flags.of_compiling) {
    if (flag == "--machine" && !is_base && !bench.keep && !bench.pairs &&
        !bench.power) {
      return Invalid(
          "--machine has no effect without a model, --keep, --pairs, --power or"
          "{} --machine-out",
          bench.device == "cuda" ? "" : " on a GPU");
    }
    if (flag == "--set" && !is_written && !bench.pairs && !bench.power) {
      return Invalid(
          "--set has no effect without a model, --pairs, --power or "
          "--machine-out");
    }
    if (flag == "--nodes" && !is_written) {
      return Invalid("--nodes has no effect without a model or --machine-out");
    }
  }
  return absl::OkStatus();
}

// Flags that would change nothing beside the others.
absl::Status CheckNoneIdle(const Flags& flags) {
  const BenchOptions& bench = flags.bench;
  if (flags.doctor) {
    for (const std::string& flag : flags.given) {
      if (flag == "--doctor" || flag == "--json") continue;
      return Invalid("{} has no effect with --doctor", flag);
    }
    if (bench.models.empty()) return absl::OkStatus();
    return Invalid("{} has no effect with --doctor", bench.models[0]);
  }
  ASYRA_RETURN_IF_ERROR(CheckMachineIsRead(flags));
  std::vector<std::string> of_models = flags.of_compiling;
  // Leaves out flags that the machine that is written reads too.
  std::erase_if(of_models, [&](const std::string& flag) {
    bool is_read = bench.models.empty() ||
                   (flag == "--nodes" && !flags.machine_out.empty());
    return IsOfMachine(flag) && is_read;
  });
  std::vector<CompileFlags> compilations;
  for (const std::string& model : bench.models) {
    compilations.push_back(bench.compile);
    compilations.back().model = model;
  }
  return CheckNoneIdle(of_models, compilations, "without a model");
}

absl::Status CheckFlags(const Flags& flags) {
  if (!flags.machine_out.empty() &&
      std::filesystem::path(flags.machine_out).extension() != ".machine") {
    return Invalid("--machine-out is {}, it should end in .machine",
                   flags.machine_out);
  }
  const BenchOptions& bench = flags.bench;
  if (bench.ranks < 0) {
    return Invalid("--bench-ranks is {}, it must be at least 1", bench.ranks);
  }
  if (!(bench.seconds > 0)) {
    return Invalid("--seconds is {}, it must be above 0", bench.seconds);
  }
  if (bench.power && bench.device == "cpu") {
    return Invalid("--power is for GPUs, --device is cpu");
  }
  if (bench.models.empty() && !bench.grid && !bench.pairs && !bench.power) {
    return Invalid("--no-grid leaves nothing to measure without a model");
  }
  bool only_power = bench.power && bench.models.empty() && !bench.grid &&
                    !bench.pairs && !bench.keep;
  if (only_power && (!flags.machine_out.empty() || !flags.table.empty())) {
    return Invalid(
        "--power measures no call that a table could have: --keep takes over "
        "what the table of --machine has");
  }
  return absl::OkStatus();
}

absl::Status Main(const Flags& flags) {
  ASYRA_RETURN_IF_ERROR(CheckNoneIdle(flags));
  if (flags.doctor) {
    std::vector<Finding> findings = Diagnose(DescribeHost(), DescribeGpus());
    Print("{}", flags.json ? DoctorJson(findings) : DoctorText(findings));
    return absl::OkStatus();
  }
  if (flags.json && !flags.bench.pairs) {
    return Invalid("--json is for --doctor and --pairs");
  }
  ASYRA_RETURN_IF_ERROR(CheckFlags(flags));
  ASYRA_ASSIGN_OR_RETURN(BenchResult result, RunBench(flags.bench));
  Progress::Erase();
  Print("{}", flags.json
                  ? OverlapsJson(result.overlaps, result.device, result.ranks)
                  : BenchText(result));
  if (!flags.table.empty()) {
    ASYRA_RETURN_IF_ERROR(WriteTextFile(flags.table, BenchTable(result)));
  }
  WarnOfCache("asyra-bench");
  if (flags.machine_out.empty()) return absl::OkStatus();
  return WriteMachine(flags.bench, result, flags.machine_out);
}

void AddBenchFlags(CLI::App& app, Flags* all) {
  BenchOptions* flags = &all->bench;
  app.add_option("model", flags->models,
                 "models and program files whose calls are measured first, "
                 "each compiled with the flags below");
  app.add_option("--device", flags->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--bench-ranks", flags->ranks,
                 "ranks that collectives are measured between: all GPUs, or 2 "
                 "on a cpu, unless given");
  app.add_option("--seconds", flags->seconds,
                 "of measuring; what is over then is listed as not measured")
      ->capture_default_str();
  app.add_option("--timeout", flags->timeout_s,
                 "seconds after which a rank that is waited for is lost")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--grid,!--no-grid", flags->grid,
               "also a grid of matmuls, attention, ops that move bytes and "
               "collectives, and matmuls beside collectives")
      ->capture_default_str();
  app.add_flag("--pairs", flags->pairs,
               "also a gather before a matmul and a scatter behind one, in "
               "shapes of MLPs and projections: one after the other, in tiles, "
               "and as one op in the likely shapes of chunk plans and the one "
               "that the costs of --machine choose");
  app.add_flag(
      "--power", flags->power,
      "also clock and power of GPUs under a few loads of seconds: what "
      "energies follow, and how the clock of long steps");
  app.add_flag("--keep", flags->keep,
               "begins with what the table of --machine has, of the same "
               "device, driver and libraries, and measures only the rest");
  app.add_flag("--doctor", all->doctor,
               "measures nothing: says what this machine has for communication "
               "behind computation (peer access, links, clocks, driver, rights "
               "of processes), what is missing and how to get it");
  app.add_flag("--json", all->json,
               "prints what --doctor says, or --pairs measured, as JSON");
  app.add_option("-o", all->table, "writes a table of costs")
      ->check(OutputFile());
  app.add_option("--machine-out", all->machine_out,
                 "writes NAME.machine and NAME.table: --machine, on a cpu a "
                 "plain one, with what was measured in its place")
      ->check(ReplacedFile());
}

}  // namespace
}  // namespace asyra

int main(int argc, char** argv) {
  asyra::Flags flags;
  CLI::App app(
      "Measures this machine for the simulator: what ops and collectives take "
      "by the executor's own kernels, those of given models first.",
      "asyra-bench");
  flags.bench.compile.progress = asyra::Progress("asyra-bench");
  asyra::AddBenchFlags(app, &flags);
  size_t others = app.get_options().size();
  asyra::AddCompileFlags(app, &flags.bench.compile);
  asyra::AddTrainFlag(app, "measures the calls of training steps of the models",
                      &flags.train, &flags.train_options);
  std::vector<CLI::Option*> compiling = app.get_options();
  compiling.erase(compiling.begin(),
                  compiling.begin() + static_cast<std::ptrdiff_t>(others));
  return asyra::RunTool(app, argc, argv, [&] {
    flags.given = asyra::GivenFlags(app.get_options());
    flags.of_compiling = asyra::GivenFlags(compiling);
    if (flags.train) flags.bench.compile.train = flags.train_options;
    return asyra::Main(flags);
  });
}
