#include "tools/bench/bench.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <set>

#include "executor/bench/collective_timer.h"
#include "ir/support/status.h"
#include "simulator/cost/load_machine.h"
#include "tools/bench/bench_estimates.h"
#include "tools/bench/bench_files.h"
#include "tools/bench/bench_grid.h"
#include "tools/bench/bench_memory.h"
#include "tools/bench/bench_platform.h"
#include "tools/bench/bench_programs.h"
#include "tools/run/run_inputs.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;

// The part of the time that may be spent so far.
class Budget {
 public:
  explicit Budget(double seconds) : seconds_(seconds) {}
  double spent_s() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }
  // Returns whether less than `part` of it is spent.
  bool Has(double part) const { return spent_s() < part * seconds_; }

 private:
  Clock::time_point begin_ = Clock::now();
  double seconds_;
};

// Programs may take so much of the time with what is local, and then with
// collectives; the grid gets the rest.
constexpr double kForPrograms = 0.5, kForCollectives = 0.7;

// Costs that were just measured may choose a program that the costs before them
// did not. As often as this the calls of that one are measured too.
constexpr int kRounds = 4;
// Rounds of a form of a pair, of which the faster counts: what disturbs a GPU
// lasts longer than the samples of one.
constexpr int kRoundsOfPairs = 2;

// A folder of this process that goes with it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code none;
    std::filesystem::path parent = std::filesystem::temp_directory_path(none);
    if (!none) path_ = parent / fmt::format("asyra-bench-{}", getpid());
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  absl::Status Make() {
    if (path_.empty()) return Invalid("TMPDIR is no folder");
    std::error_code error;
    std::filesystem::create_directories(path_, error);
    if (!error) return absl::OkStatus();
    return Invalid("{} cannot be made: {}", path_.string(), error.message());
  }
  std::filesystem::path operator/(std::string_view name) const {
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

std::string Today() {
  std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  return fmt::format("{}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday);
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
    result_.date = Today();
    ASYRA_ASSIGN_OR_RETURN(platform_, OpenPlatform(options_, &result_));
    if (options_.keep) ASYRA_RETURN_IF_ERROR(KeepTable());
    ASYRA_RETURN_IF_ERROR(LoadModels());
    ASYRA_ASSIGN_OR_RETURN(device_, platform_->MakeDevice(0, result_.ranks));
    ASYRA_ASSIGN_OR_RETURN(result_.context_mib, ContextMib(*device_));
    ASYRA_RETURN_IF_ERROR(MeasureLaunches());
    // First, while nothing else has run.
    if (options_.device == "cuda") ASYRA_RETURN_IF_ERROR(FindPower());
    ASYRA_RETURN_IF_ERROR(MeasureProgramsInRounds());
    if (options_.pairs) ASYRA_RETURN_IF_ERROR(MeasureOverlaps());
    if (options_.grid) {
      ASYRA_RETURN_IF_ERROR(MeasureCollectiveGrid());
      ASYRA_RETURN_IF_ERROR(MeasureGrid());
    }
    result_.seconds = budget_.spent_s();
    return std::move(result_);
  }

 private:
  absl::Status LoadModels() {
    CompileFlags flags = options_.compile;
    for (const std::string& name : options_.models) {
      flags.model = name;
      ASYRA_RETURN_IF_ERROR(CheckTarget(flags));
      ASYRA_ASSIGN_OR_RETURN(RaisedModel raised, LoadRaised(flags));
      result_.weights_from_inputs +=
          WeightsFromInputsLine(name, raised.lacking_weights);
      models_.push_back({name, std::move(raised)});
    }
    return absl::OkStatus();
  }

  // The programs that the costs of --machine choose among, then those that the
  // costs measured so far do, until these ask for nothing new.
  absl::Status MeasureProgramsInRounds() {
    CompileFlags flags = options_.compile;
    ScratchFolder folder;
    for (int round = 0; round < kRounds; ++round) {
      size_t before = result_.calls.size();
      ASYRA_ASSIGN_OR_RETURN(std::vector<ProgramCalls> programs,
                             CallsOfModels(flags, models_));
      ASYRA_RETURN_IF_ERROR(MeasurePrograms(programs));
      if (result_.calls.size() == before || !budget_.Has(kForPrograms)) break;
      std::filesystem::path machine = folder / "measured.machine";
      ASYRA_RETURN_IF_ERROR(folder.Make());
      ASYRA_RETURN_IF_ERROR(WriteMachine(options_, result_, machine));
      flags.machine = machine.string();
      flags.set.clear();  // they are in it
    }
    return absl::OkStatus();
  }

  absl::Status MeasurePrograms(absl::Span<const ProgramCalls> programs) {
    std::vector<CollectiveCall> collectives;
    for (const ProgramCalls& calls : programs) {
      ASYRA_RETURN_IF_ERROR(MeasureMix(calls.local));
      collectives.insert(collectives.end(), calls.collectives.begin(),
                         calls.collectives.end());
      for (const std::string& text : calls.left_out) LeaveOut(text);
    }
    return MeasureCollectives(std::move(collectives));
  }

  absl::StatusOr<Machine> BaseMachine() const {
    return LoadMachine(options_.compile.machine, options_.compile.set);
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
      Add({std::move(point.call),
           point.ranks,
           {.us = point.us, .mhz = point.mhz}});
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
    known_.insert(CallKey(call.text, call.ranks));
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
    return known_.contains(CallKey(text, ranks));
  }

  absl::Status MeasureLaunches() {
    ASYRA_ASSIGN_OR_RETURN(LocalCall call, ParseLocalCall("neg(f32[16])"));
    absl::StatusOr<LaunchTimes> launches = TimeLaunches(*device_, call.use);
    if (!launches.ok()) return Annotate(launches.status(), call.text);
    result_.launches = *launches;
    return absl::OkStatus();
  }

  // Tells what is being measured, the one after `done` of `all`.
  void Tell(std::string_view what, size_t done, size_t all,
            std::string_view call) const {
    if (!options_.compile.progress) return;
    options_.compile.progress(fmt::format("{} {} of {}, at most {:.0f} s: {}",
                                          what, done + 1, all, options_.seconds,
                                          call));
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
    ++mixes_;
    if (options_.compile.progress) {
      options_.compile.progress(fmt::format(
          "program {}, its {} local calls in turn, at most {:.0f} s", mixes_,
          mix.size(), options_.seconds));
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

  // Measures the calls of programs whose groups exist.
  absl::Status MeasureCollectives(std::vector<CollectiveCall> calls) {
    std::erase_if(calls, [&](const CollectiveCall& call) {
      if (result_.ranks % call.ranks == 0) return false;
      LeaveOut(call.text, fmt::format("{} ranks are no groups of {}",
                                      result_.ranks, call.ranks));
      return true;
    });
    std::erase_if(calls, [&](const CollectiveCall& call) {
      // On cpus such an overlap runs as its ops, which are measured anyway.
      return Known(call.text, call.ranks) ||
             (call.one_kernel && options_.device == "cpu");
    });
    if (result_.ranks < 2 || calls.empty()) return absl::OkStatus();
    return OnRanks([&](RankTimer& timer) { return MeasureWith(timer, calls); });
  }

  // Measures it where that is asked for.
  absl::Status FindPower() {
    ASYRA_ASSIGN_OR_RETURN(Machine base, BaseMachine());
    result_.power = base.gpu.power;
    if (!options_.power) return absl::OkStatus();
    result_.loads = PowerLoads(base, result_.ranks);
    ASYRA_RETURN_IF_ERROR(RunRankTimers(
        *platform_, result_.ranks, options_.timeout_s, [&](RankTimer& timer) {
          auto tell = [&](size_t i) {
            Tell("load", i, result_.loads.size(), result_.loads[i].load.text);
          };
          return MeasureLoads(timer, tell, &result_.loads);
        }));
    ASYRA_ASSIGN_OR_RETURN(result_.power,
                           PowerOf(result_.loads, result_.ranks));
    return absl::OkStatus();
  }

  // All forms of all pairs. Plans are table points, and so are the matmuls and
  // collectives alone.
  absl::Status MeasureOverlaps() {
    if (result_.ranks < 2) {
      return Invalid("--pairs: there is {} rank, a collective needs 2",
                     result_.ranks);
    }
    ASYRA_ASSIGN_OR_RETURN(Machine machine, BaseMachine());
    for (const OverlapShape& shape :
         OverlapShapes(options_.device, result_.ranks)) {
      ASYRA_ASSIGN_OR_RETURN(
          std::vector<OverlapForm> forms,
          OverlapForms(shape, scale_.dtype, result_.ranks, machine));
      result_.overlaps.push_back({shape, std::move(forms)});
    }
    ASYRA_RETURN_IF_ERROR(OnRanks([&](RankTimer& timer) -> absl::Status {
      for (size_t i = 0; i < result_.overlaps.size(); ++i) {
        MeasuredOverlap& overlap = result_.overlaps[i];
        for (OverlapForm& form : overlap.forms) {
          if (timer.rank() == 0) {
            Tell("overlap", i, result_.overlaps.size(),
                 fmt::format("{}, {}", overlap.shape.name, form.name));
          }
          ASYRA_RETURN_IF_ERROR(MeasureForm(timer, overlap.shape, &form));
        }
      }
      return absl::OkStatus();
    }));
    return EstimateFromParts(options_.compile.machine, std::move(machine),
                             result_.calls, scale_.dtype, result_.ranks,
                             &result_.overlaps);
  }

  absl::Status MeasureForm(RankTimer& timer, const OverlapShape& shape,
                           OverlapForm* form) {
    bool first = timer.rank() == 0;
    std::string name = fmt::format("{}, {}", shape.name, form->name);
    ASYRA_ASSIGN_OR_RETURN(bool go, HasTime(timer, name));
    if (!go) return absl::OkStatus();
    absl::StatusOr<Timing> timing = timer.TimeSequence(form->calls);
    for (int i = 1; i < kRoundsOfPairs && timing.ok(); ++i) {
      absl::StatusOr<Timing> again = timer.TimeSequence(form->calls);
      if (!again.ok() || again->us < timing->us) timing = std::move(again);
    }
    if (absl::IsUnimplemented(timing.status())) {  // on all ranks
      if (first) LeaveOut(name, MessageOf(timing.status()));
      return absl::OkStatus();
    }
    if (!timing.ok()) return Annotate(timing.status(), name);
    if (!first) return absl::OkStatus();
    form->timing = *timing;
    bool is_local =
        form->kind == OverlapForm::kMatmul || form->kind == OverlapForm::kPiece;
    int ranks = is_local ? 1 : result_.ranks;
    const std::string& text = form->calls[0].text;
    if (form->calls.size() == 1 && !Known(text, ranks)) {
      Add({text, ranks, *timing});
    }
    return absl::OkStatus();
  }

  absl::Status MeasureCollectiveGrid() {
    if (result_.ranks < 2) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(std::vector<PairCall> pairs,
                           PairGrid(scale_, result_.ranks));
    std::vector<CollectiveCall> grid = CollectiveGrid(scale_, result_.ranks);
    return OnRanks([&](RankTimer& timer) -> absl::Status {
      ASYRA_RETURN_IF_ERROR(MeasureCta(timer));
      ASYRA_RETURN_IF_ERROR(MeasurePairs(timer, pairs));
      return MeasureWith(timer, grid);
    });
  }

  // On threads of ranks, the memory of the library first.
  absl::Status OnRanks(
      const std::function<absl::Status(RankTimer& timer)>& measure) {
    return RunRankTimers(*platform_, result_.ranks, options_.timeout_s,
                         [&](RankTimer& timer) -> absl::Status {
                           ASYRA_RETURN_IF_ERROR(MeasureMemory(timer));
                           return measure(timer);
                         });
  }

  // Once, before anything else is carried.
  absl::Status MeasureMemory(RankTimer& timer) {
    bool first = timer.rank() == 0;
    ASYRA_ASSIGN_OR_RETURN(bool measure,
                           timer.Agree(first && result_.context_mib > 0 &&
                                       !result_.collective_memory.has_value()));
    if (!measure) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(LibraryMemory memory,
                           MeasureCollectiveMemory(timer, result_.ranks));
    if (first) result_.collective_memory = memory;
    return absl::OkStatus();
  }

  // Returns whether there is time, as rank 0 sees it; a call without time is
  // left out.
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
    for (size_t i = 0; i < calls.size(); ++i) {
      const CollectiveCall& call = calls[i];
      bool first = timer.rank() == 0;
      if (first) Tell("collective", i, calls.size(), call.text);
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

  // Measures what one CTA of the collective library moves: no cost of a call,
  // as tables have them for as many CTAs as the library takes.
  absl::Status MeasureCta(RankTimer& timer) {
    if (options_.device == "cpu") return absl::OkStatus();
    CollectiveCall call = OneCtaGather(scale_, result_.ranks);
    ASYRA_ASSIGN_OR_RETURN(bool go, HasTime(timer, call.text));
    if (!go) return absl::OkStatus();
    absl::StatusOr<Timing> timing = timer.TimeCollective(call);
    if (!timing.ok()) return Annotate(timing.status(), call.text);
    ASYRA_ASSIGN_OR_RETURN(int64_t payload, PayloadOf(call));
    if (timer.rank() != 0) return absl::OkStatus();
    result_.cta_gbps =
        BusGbps(CollectiveKind::kAllGather, payload, call.ranks, timing->us);
    return absl::OkStatus();
  }

  absl::Status MeasurePairs(RankTimer& timer,
                            absl::Span<const PairCall> pairs) {
    for (size_t i = 0; i < pairs.size(); ++i) {
      const PairCall& pair = pairs[i];
      if (timer.rank() == 0) {
        Tell("pair", i, pairs.size(),
             fmt::format("{} beside {}", pair.compute.text,
                         pair.collective.text));
      }
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
    std::vector<std::string> grid = LocalGrid(scale_);
    for (size_t i = 0; i < grid.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(LocalCall call, ParseLocalCall(grid[i]));
      Tell("op", i, grid.size(), call.text);
      ASYRA_RETURN_IF_ERROR(Measure(call));
    }
    return absl::OkStatus();
  }

  const BenchOptions& options_;
  Budget budget_;
  GridScale scale_;
  BenchResult result_;
  std::vector<BenchModel> models_;
  std::set<std::pair<std::string, int>> known_;  // of its calls
  int mixes_ = 0;                                // programs that were measured
  std::unique_ptr<Platform> platform_;
  std::shared_ptr<Device> device_;
};

}  // namespace

absl::StatusOr<BenchResult> RunBench(const BenchOptions& options) {
  return Bench(options).Run();
}

}  // namespace asyra
