// asyra-bench: measures a machine for the simulator, the calls of given
// programs first.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "CLI/CLI.hpp"
#include "executor/bench/collective_timer.h"
#include "executor/cpu/run_on_cpu.h"
#include "executor/cuda/cuda_device.h"
#include "executor/cuda/cuda_platform.h"
#include "executor/cuda/facts.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "simulator/embedded_machines.h"
#include "simulator/machine.h"
#include "simulator/machine_edit.h"
#include "tools/bench_grid.h"
#include "tools/bench_report.h"
#include "tools/cache_warning.h"
#include "tools/compile.h"
#include "tools/run_inputs.h"
#include "tools/run_tool.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  CompileOptions compile;
  std::vector<std::string> models;
  std::string device = "cuda";
  int ranks = 0;  // 0: GPUs that there are, 2 on a cpu
  double seconds = 240;
  double timeout_s = 60;
  bool grid = true;
  std::string table, machine_out;
};

// What of the time may be spent so far.
class Budget {
 public:
  explicit Budget(double seconds) : seconds_(seconds) {}
  double spent_s() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }
  // Whether less than `part` of it is spent.
  bool Has(double part) const { return spent_s() < part * seconds_; }

 private:
  Clock::time_point begin_ = Clock::now();
  double seconds_;
};

// Programs may take so much of the time with what is local, and then with
// collectives; the grid gets the rest.
constexpr double kForPrograms = 0.5, kForCollectives = 0.7;

// Of each model as it is partitioned and as it is scheduled; where ops may be
// fused, not at all, without products and with them, so that prices can tell
// which is better.
absl::StatusOr<std::vector<ProgramCalls>> CallsOfModels(const Flags& flags) {
  std::vector<ProgramCalls> programs;
  auto add = [&](const CompileOptions& options) -> absl::Status {
    ASYRA_ASSIGN_OR_RETURN(CompileResult result, Compile(options));
    int64_t limit = IndexLimit(result.program);
    if (result.partitioned.has_value()) {
      AddCalls(*result.partitioned, limit, &programs.emplace_back());
    }
    AddCalls(result.program, limit, &programs.emplace_back());
    return absl::OkStatus();
  };
  for (const std::string& model : flags.models) {
    CompileOptions options = flags.compile;
    options.model = model;
    if (options.fuse) {
      if (options.epilogues != "none") {
        options.epilogues = "priced";
        ASYRA_RETURN_IF_ERROR(add(options));
      }
      options.epilogues = "none";
      ASYRA_RETURN_IF_ERROR(add(options));
      options.fuse = false;
    }
    ASYRA_RETURN_IF_ERROR(add(options));
  }
  return programs;
}

std::string Today() {
  std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  return fmt::format("{}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday);
}

std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    size_t colon = line.find(": ");
    if (line.substr(0, 10) == "model name" && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "cpu";
}

class Bench {
 public:
  explicit Bench(const Flags& flags)
      : flags_(flags),
        budget_(flags.seconds),
        scale_(flags.device == "cuda" ? GridOfGpu() : GridOfCpu()) {}

  absl::StatusOr<BenchResult> Run() {
    ASYRA_RETURN_IF_ERROR(Begin());
    ASYRA_ASSIGN_OR_RETURN(std::vector<ProgramCalls> programs,
                           CallsOfModels(flags_));
    ASYRA_ASSIGN_OR_RETURN(device_, platform_->MakeDevice(0, result_.ranks));
    ASYRA_RETURN_IF_ERROR(MeasureLaunches());
    std::vector<CollectiveCall> collectives;
    for (const ProgramCalls& calls : programs) {
      ASYRA_RETURN_IF_ERROR(MeasureMix(calls.local));
      collectives.insert(collectives.end(), calls.collectives.begin(),
                         calls.collectives.end());
      for (const std::string& text : calls.left_out) LeaveOut(text);
    }
    ASYRA_RETURN_IF_ERROR(MeasureCollectives(std::move(collectives)));
    if (flags_.grid) ASYRA_RETURN_IF_ERROR(MeasureGrid());
    result_.seconds = budget_.spent_s();
    return std::move(result_);
  }

 private:
  absl::Status Begin() {
    result_.date = Today();
    if (flags_.device == "cpu") {
      platform_ = CreateCpuPlatform();
      result_.device = CpuName();
      result_.driver = "none";
      result_.libraries = "the kernels of the cpu";
      result_.ranks = flags_.ranks > 0 ? flags_.ranks : 2;
      return absl::OkStatus();
    }
    ASYRA_ASSIGN_OR_RETURN(platform_,
                           CreateCudaPlatform({.timeout_s = flags_.timeout_s}));
    ASYRA_ASSIGN_OR_RETURN(CudaFacts facts, DescribeCuda());
    result_.device = facts.device;
    result_.driver = facts.driver;
    result_.libraries = facts.libraries;
    result_.ranks = flags_.ranks;
    if (result_.ranks == 0) {
      // As many as there is room for.
      while (platform_->CheckRanks(result_.ranks + 1).ok()) ++result_.ranks;
    }
    return platform_->CheckRanks(result_.ranks);
  }

  void LeaveOut(std::string text) {
    auto& all = result_.left_out;
    if (std::find(all.begin(), all.end(), text) == all.end()) {
      all.push_back(std::move(text));
    }
  }
  void LeaveOut(std::string_view call, std::string_view why) {
    LeaveOut(fmt::format("{}: {}", call, why));
  }

  bool Known(const std::string& text, int ranks) const {
    for (const MeasuredCall& call : result_.calls) {
      if (call.text == text && call.ranks == ranks) return true;
    }
    return false;
  }

  absl::Status MeasureLaunches() {
    ASYRA_ASSIGN_OR_RETURN(LocalCall call, ParseLocalCall("neg(f32[16])"));
    absl::StatusOr<LaunchTimes> launches = TimeLaunches(*device_, call.use);
    if (!launches.ok()) return Annotate(launches.status(), call.text);
    result_.launches = *launches;
    return absl::OkStatus();
  }

  // All calls of a program in turn, as in its steps, unless none is new.
  absl::Status MeasureMix(absl::Span<const LocalCall> calls) {
    auto known = [&](const LocalCall& call) { return Known(call.text, 1); };
    if (std::all_of(calls.begin(), calls.end(), known)) return absl::OkStatus();
    if (!budget_.Has(kForPrograms)) {
      for (const LocalCall& call : calls) {
        if (!known(call)) LeaveOut(call.text, "the time was over");
      }
      return absl::OkStatus();
    }
    std::vector<MixCall> mix;
    for (const LocalCall& call : calls) {
      mix.push_back({call.use, call.count, call.index_limit});
    }
    ASYRA_ASSIGN_OR_RETURN(std::vector<absl::StatusOr<Timing>> timings,
                           TimeMix(*device_, mix));
    for (size_t i = 0; i < calls.size(); ++i) {
      if (known(calls[i])) continue;
      ASYRA_RETURN_IF_ERROR(Keep(calls[i], timings[i]));
    }
    return absl::OkStatus();
  }

  absl::Status Measure(const LocalCall& call) {
    if (Known(call.text, 1)) return absl::OkStatus();
    if (!budget_.Has(1)) {
      LeaveOut(call.text, "the time was over");
      return absl::OkStatus();
    }
    return Keep(call, TimeKernel(*device_, call.use,
                                 {.index_limit = call.index_limit}));
  }

  absl::Status Keep(const LocalCall& call,
                    const absl::StatusOr<Timing>& timing) {
    if (absl::IsUnimplemented(timing.status()) ||
        absl::IsResourceExhausted(timing.status())) {
      LeaveOut(call.text, MessageOf(timing.status()));
      return absl::OkStatus();
    }
    if (!timing.ok()) return Annotate(timing.status(), call.text);
    result_.calls.push_back({call.text, 1, *timing});
    return absl::OkStatus();
  }

  // Those of programs whose groups there are, then pairs, then the grid.
  absl::Status MeasureCollectives(std::vector<CollectiveCall> calls) {
    std::erase_if(calls, [&](const CollectiveCall& call) {
      if (result_.ranks % call.ranks == 0) return false;
      LeaveOut(call.text, fmt::format("{} ranks are no groups of {}",
                                      result_.ranks, call.ranks));
      return true;
    });
    if (result_.ranks < 2) return absl::OkStatus();
    std::vector<PairCall> pairs;
    std::vector<CollectiveCall> grid;
    if (flags_.grid) {
      ASYRA_ASSIGN_OR_RETURN(pairs, PairGrid(scale_, result_.ranks));
      grid = CollectiveGrid(scale_, result_.ranks);
    }
    return RunRankTimers(*platform_, result_.ranks, flags_.timeout_s,
                         [&](RankTimer& timer) -> absl::Status {
                           ASYRA_RETURN_IF_ERROR(MeasureWith(timer, calls));
                           ASYRA_RETURN_IF_ERROR(MeasurePairs(timer, pairs));
                           return MeasureWith(timer, grid);
                         });
  }

  // As rank 0 sees it; what there is none for is left out.
  absl::StatusOr<bool> HasTime(RankTimer& timer, std::string_view call) {
    bool first = timer.rank() == 0;
    ASYRA_ASSIGN_OR_RETURN(bool has,
                           timer.Agree(first && budget_.Has(kForCollectives)));
    if (!has && first) LeaveOut(call, "the time was over");
    return has;
  }

  // By every rank; the first one keeps the result.
  absl::Status MeasureWith(RankTimer& timer,
                           absl::Span<const CollectiveCall> calls) {
    for (const CollectiveCall& call : calls) {
      bool first = timer.rank() == 0;
      ASYRA_ASSIGN_OR_RETURN(
          bool known, timer.Agree(first && Known(call.text, call.ranks)));
      if (known) continue;
      ASYRA_ASSIGN_OR_RETURN(bool go, HasTime(timer, call.text));
      if (!go) continue;
      absl::StatusOr<Timing> timing = timer.TimeCollective(call);
      if (!timing.ok()) return Annotate(timing.status(), call.text);
      if (first) result_.calls.push_back({call.text, call.ranks, *timing});
    }
    return absl::OkStatus();
  }

  absl::Status MeasurePairs(RankTimer& timer,
                            absl::Span<const PairCall> pairs) {
    for (const PairCall& pair : pairs) {
      ASYRA_ASSIGN_OR_RETURN(bool go, HasTime(timer, pair.collective.text));
      if (!go) continue;
      absl::StatusOr<PairTiming> timing = timer.TimePair(pair);
      if (!timing.ok()) {
        return Annotate(timing.status(), pair.collective.text);
      }
      if (timer.rank() != 0) continue;
      result_.pairs.push_back(
          {pair.compute.text, pair.collective.text, pair.kind, *timing});
    }
    return absl::OkStatus();
  }

  absl::Status MeasureGrid() {
    for (const std::string& text : LocalGrid(scale_)) {
      ASYRA_ASSIGN_OR_RETURN(LocalCall call, ParseLocalCall(text));
      ASYRA_RETURN_IF_ERROR(Measure(call));
    }
    return absl::OkStatus();
  }

  const Flags& flags_;
  Budget budget_;
  GridScale scale_;
  BenchResult result_;
  std::unique_ptr<Platform> platform_;
  std::shared_ptr<Device> device_;
};

absl::StatusOr<std::string> TextOf(const std::string& machine) {
  if (std::filesystem::path(machine).extension() == ".machine") {
    return ReadFile(machine);
  }
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (file.name == machine + ".machine") return std::string(file.text);
  }
  return Invalid("there is no machine {}", machine);
}

// The text of --machine's file, or a plain one, as --set edits it, which the
// new one begins with.
absl::StatusOr<std::string> BaseOf(const Flags& flags,
                                   const BenchResult& result) {
  absl::StatusOr<std::string> text = flags.device == "cpu"
                                         ? PlainMachine(result)
                                         : TextOf(flags.compile.machine);
  if (!text.ok()) return text;
  return EditMachine(*text, MachineEdits(flags.compile));
}

// The machine and its table beside it, which are then read back.
absl::Status WriteMachine(const Flags& flags, const BenchResult& result) {
  std::filesystem::path path(flags.machine_out);
  std::filesystem::path table = path;
  table.replace_extension(".table");
  ASYRA_ASSIGN_OR_RETURN(std::string base, BaseOf(flags, result));
  ASYRA_ASSIGN_OR_RETURN(std::string machine,
                         BenchMachine(result, path.stem().string(),
                                      table.filename().string(), base));
  ASYRA_RETURN_IF_ERROR(
      WriteFileAtomically(table.string(), {BenchTable(result)}));
  ASYRA_RETURN_IF_ERROR(WriteFileAtomically(path.string(), {machine}));
  return LoadMachine(path.string()).status();
}

absl::Status CheckFlags(const Flags& flags) {
  if (!flags.machine_out.empty() &&
      std::filesystem::path(flags.machine_out).extension() != ".machine") {
    return Invalid("--machine-out is {}, it should end in .machine",
                   flags.machine_out);
  }
  if (flags.ranks < 0) {
    return Invalid("--bench-ranks is {}, it must be at least 1", flags.ranks);
  }
  if (!(flags.seconds > 0)) {
    return Invalid("--seconds is {}, it must be above 0", flags.seconds);
  }
  if (flags.models.empty() && !flags.grid) {
    return Invalid("--no-grid leaves nothing to measure without a model");
  }
  return absl::OkStatus();
}

absl::Status Main(const Flags& flags) {
  ASYRA_RETURN_IF_ERROR(CheckFlags(flags));
  ASYRA_ASSIGN_OR_RETURN(BenchResult result, Bench(flags).Run());
  fmt::print("{}", BenchText(result));
  if (!flags.table.empty()) {
    ASYRA_RETURN_IF_ERROR(
        WriteFileAtomically(flags.table, {BenchTable(result)}));
  }
  WarnOfCache("asyra-bench");
  if (flags.machine_out.empty()) return absl::OkStatus();
  return WriteMachine(flags, result);
}

void AddBenchFlags(CLI::App& app, Flags* flags) {
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
               "also a grid of products, attention, ops that move bytes and "
               "collectives, and products beside collectives")
      ->capture_default_str();
  app.add_option("-o", flags->table, "writes a table of costs");
  app.add_option("--machine-out", flags->machine_out,
                 "writes NAME.machine and NAME.table: --machine, on a cpu a "
                 "plain one, with what was measured in its place");
}

}  // namespace
}  // namespace asyra

int main(int argc, char** argv) {
  asyra::Flags flags;
  CLI::App app(
      "Measures this machine for the simulator: what ops and collectives take "
      "by the executor's own kernels, those of given models first.",
      "asyra-bench");
  asyra::AddBenchFlags(app, &flags);
  asyra::AddCompileFlags(app, &flags.compile);
  return asyra::RunTool(app, argc, argv,
                        [&flags] { return asyra::Main(flags); });
}
