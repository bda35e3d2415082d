#include "tools/bench.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <set>

#include "executor/bench/collective_timer.h"
#include "executor/cpu/run_on_cpu.h"
#include "executor/cuda/device/cuda_device.h"
#include "executor/cuda/device/cuda_platform.h"
#include "executor/cuda/device/device_info.h"
#include "ir/support/status.h"
#include "passes/strategy_search.h"
#include "simulator/cost_table.h"
#include "tools/bench_grid.h"
#include "tools/bench_memory.h"
#include "tools/run_inputs.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;

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

void AddProgram(const Program& program, std::vector<ProgramCalls>* programs) {
  AddCalls(program, IndexLimit(program), &programs->emplace_back());
}

// Of a model as it is partitioned and as it is scheduled.
absl::Status AddScheduled(const CompileFlags& options, const RaisedModel& model,
                          std::vector<ProgramCalls>* programs) {
  ASYRA_ASSIGN_OR_RETURN(CompiledModel result, Compile(options, model));
  if (result.partitioned.has_value()) {
    AddProgram(*result.partitioned, programs);
  }
  AddProgram(result.program, programs);
  return absl::OkStatus();
}

// Where ops may be fused, not at all, without matmuls and with them, so that
// costs can tell which is better.
absl::Status AddFused(const CompileFlags& asked, const RaisedModel& model,
                      std::vector<ProgramCalls>* programs) {
  CompileFlags options = asked;
  if (asked.fuse) {
    if (asked.epilogues != "none") {
      options.epilogues = "estimated";
      ASYRA_RETURN_IF_ERROR(AddScheduled(options, model, programs));
    }
    options.epilogues = "none";
    ASYRA_RETURN_IF_ERROR(AddScheduled(options, model, programs));
    options.fuse = false;
  }
  return AddScheduled(options, model, programs);
}

// Every strategy of the program that is compared unasked, and in every number
// of tiles that is, so that costs of these are measured before they choose.
// What does not fit, or numbers that do not cut a model, are left out.
absl::Status AddStrategies(const CompileFlags& asked, const RaisedModel& model,
                           std::vector<ProgramCalls>* programs) {
  CompileFlags options = asked;
  options.scheduler = "segrr";
  options.bucket = false;
  int first = asked.tiles == 0 ? 1 : asked.tiles;
  int last = asked.tiles == 0 ? kMostTiles : asked.tiles;
  ASYRA_ASSIGN_OR_RETURN(Mesh mesh, MeshOf(asked));
  ASYRA_ASSIGN_OR_RETURN(CompileOptions compile, OptionsOf(asked));
  for (const std::string& strategy : TpStrategies(compile.sharding, mesh)) {
    options.tp_strategy = strategy;
    for (options.tiles = first; options.tiles <= last; ++options.tiles) {
      absl::Status added = options.tiles == 1
                               ? AddFused(options, model, programs)
                               : AddScheduled(options, model, programs);
      if (IsRefusal(added)) continue;
      ASYRA_RETURN_IF_ERROR(added);
    }
  }
  return absl::OkStatus();
}

// What runs unless costs change much comes first.
absl::StatusOr<std::vector<ProgramCalls>> CallsOfModels(
    const BenchOptions& bench, BenchResult* result) {
  CompileFlags options = bench.compile;
  std::vector<RaisedModel> models;
  for (const std::string& name : bench.models) {
    options.model = name;
    ASYRA_RETURN_IF_ERROR(CheckTarget(options));
    ASYRA_ASSIGN_OR_RETURN(models.emplace_back(), LoadRaised(options));
    result->weights_from_inputs +=
        WeightsFromInputsLine(name, models.back().lacking_weights);
  }
  std::vector<ProgramCalls> programs;
  for (auto add : {AddFused, AddStrategies}) {
    for (size_t m = 0; m < models.size(); ++m) {
      options.model = bench.models[m];
      ASYRA_RETURN_IF_ERROR(add(options, models[m], &programs));
    }
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

// A call however it is spaced.
std::pair<std::string, int> NameOf(std::string text, int ranks) {
  std::erase(text, ' ');
  return {std::move(text), ranks};
}

// For people: what a table was measured with.
std::string MeasuredWith(std::string_view device, std::string_view driver,
                         std::string_view libraries) {
  return fmt::format("{} ({}; {})", device, driver, libraries);
}

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(options),
        budget_(options.seconds),
        scale_(options.device == "cuda" ? GridOfGpu() : GridOfCpu()) {}

  absl::StatusOr<BenchResult> Run() {
    ASYRA_RETURN_IF_ERROR(Begin());
    if (options_.keep) ASYRA_RETURN_IF_ERROR(KeepTable());
    ASYRA_ASSIGN_OR_RETURN(std::vector<ProgramCalls> programs,
                           CallsOfModels(options_, &result_));
    ASYRA_ASSIGN_OR_RETURN(device_, platform_->MakeDevice(0, result_.ranks));
    ASYRA_ASSIGN_OR_RETURN(result_.context_mib, ContextMib(*device_));
    ASYRA_RETURN_IF_ERROR(MeasureLaunches());
    std::vector<CollectiveCall> collectives;
    for (const ProgramCalls& calls : programs) {
      ASYRA_RETURN_IF_ERROR(MeasureMix(calls.local));
      collectives.insert(collectives.end(), calls.collectives.begin(),
                         calls.collectives.end());
      for (const std::string& text : calls.left_out) LeaveOut(text);
    }
    ASYRA_RETURN_IF_ERROR(MeasureCollectives(std::move(collectives)));
    if (options_.grid) ASYRA_RETURN_IF_ERROR(MeasureGrid());
    result_.seconds = budget_.spent_s();
    return std::move(result_);
  }

 private:
  absl::Status Begin() {
    result_.date = Today();
    if (options_.device == "cpu") {
      platform_ = CreateCpuPlatform();
      result_.device = CpuName();
      result_.driver = "none";
      result_.libraries = "the kernels of the cpu";
      result_.ranks = options_.ranks > 0 ? options_.ranks : 2;
      result_.whole_host = true;
      return absl::OkStatus();
    }
    return BeginOnGpus();
  }

  absl::Status BeginOnGpus() {
    ASYRA_ASSIGN_OR_RETURN(
        platform_, CreateCudaPlatform({.timeout_s = options_.timeout_s}));
    ASYRA_ASSIGN_OR_RETURN(CudaDeviceInfo info, DescribeCuda());
    result_.device = info.device;
    result_.driver = info.driver;
    result_.libraries = info.libraries;
    result_.cache_bytes = info.cache_bytes;
    result_.ranks = options_.ranks;
    if (result_.ranks == 0) {
      // As many as there is room for.
      while (platform_->CheckRanks(result_.ranks + 1).ok()) ++result_.ranks;
      result_.whole_host = true;
    }
    return platform_->CheckRanks(result_.ranks);
  }

  // Takes over what was measured before, with the same things.
  absl::Status KeepTable() {
    const std::string& machine = options_.compile.machine;
    absl::StatusOr<Measurements> before = LoadMeasurements(machine);
    if (!before.ok()) return Annotate(before.status(), "--keep");
    std::string theirs = MeasuredWith(before->device, before->driver,
                                      before->libraries),
                ours = MeasuredWith(result_.device, result_.driver,
                                    result_.libraries);
    if (theirs != ours) {
      return Invalid("--keep: the table of {} was measured on {}, this is {}",
                     machine, theirs, ours);
    }
    for (Measurement& point : before->points) {
      Add({std::move(point.call), point.ranks, {.us = point.us}});
    }
    result_.kept = result_.calls.size();
    result_.kept_method = before->method;
    // Each day once.
    if (before->date.find(result_.date) == std::string::npos) {
      before->date += ", " + result_.date;
    }
    result_.date = before->date;
    return absl::OkStatus();
  }

  void Add(MeasuredCall call) {
    known_.insert(NameOf(call.text, call.ranks));
    result_.calls.push_back(std::move(call));
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
    return known_.contains(NameOf(text, ranks));
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
    Add({call.text, 1, *timing});
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
    std::erase_if(calls, [&](const CollectiveCall& call) {
      return Known(call.text, call.ranks);
    });
    std::vector<PairCall> pairs;
    std::vector<CollectiveCall> grid;
    if (calls.empty() && !options_.grid) return absl::OkStatus();
    if (options_.grid) {
      ASYRA_ASSIGN_OR_RETURN(pairs, PairGrid(scale_, result_.ranks));
      grid = CollectiveGrid(scale_, result_.ranks);
    }
    return RunRankTimers(*platform_, result_.ranks, options_.timeout_s,
                         [&](RankTimer& timer) -> absl::Status {
                           ASYRA_RETURN_IF_ERROR(MeasureMemory(timer));
                           ASYRA_RETURN_IF_ERROR(MeasureWith(timer, calls));
                           if (options_.grid) {
                             ASYRA_RETURN_IF_ERROR(MeasureBlock(timer));
                           }
                           ASYRA_RETURN_IF_ERROR(MeasurePairs(timer, pairs));
                           return MeasureWith(timer, grid);
                         });
  }

  // Before anything else is carried.
  absl::Status MeasureMemory(RankTimer& timer) {
    bool first = timer.rank() == 0;
    ASYRA_ASSIGN_OR_RETURN(bool known,
                           timer.Agree(first && result_.context_mib > 0));
    if (!known) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(LibraryMemory memory,
                           MeasureCollectiveMemory(timer, result_.ranks));
    if (first) result_.collective_memory = memory;
    return absl::OkStatus();
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
      if (absl::IsUnimplemented(timing.status())) {  // on all ranks
        if (first) LeaveOut(call.text, MessageOf(timing.status()));
        continue;
      }
      if (!timing.ok()) return Annotate(timing.status(), call.text);
      if (first) Add({call.text, call.ranks, *timing});
    }
    return absl::OkStatus();
  }

  // What one CTA of the collective library moves: no cost of a call,
  // as tables have them for as many CTAs as the library takes.
  absl::Status MeasureBlock(RankTimer& timer) {
    if (options_.device == "cpu") return absl::OkStatus();
    CollectiveCall call = OneBlockGather(scale_, result_.ranks);
    ASYRA_ASSIGN_OR_RETURN(bool go, HasTime(timer, call.text));
    if (!go) return absl::OkStatus();
    absl::StatusOr<Timing> timing = timer.TimeCollective(call);
    if (!timing.ok()) return Annotate(timing.status(), call.text);
    ASYRA_ASSIGN_OR_RETURN(int64_t payload, PayloadOf(call));
    if (timer.rank() != 0) return absl::OkStatus();
    result_.block_gbps =
        BusGbps(CollectiveKind::kAllGather, payload, call.ranks, timing->us);
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

  const BenchOptions& options_;
  Budget budget_;
  GridScale scale_;
  BenchResult result_;
  std::set<std::pair<std::string, int>> known_;  // of its calls
  std::unique_ptr<Platform> platform_;
  std::shared_ptr<Device> device_;
};

}  // namespace

absl::StatusOr<BenchResult> RunBench(const BenchOptions& options) {
  return Bench(options).Run();
}

}  // namespace asyra
