#include "passes/training.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "fmt/format.h"
#include "ir/split_axes.h"
#include "ir/support/hash.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "ir/training_names.h"
#include "passes/search/capacity_error.h"
#include "passes/shard/padded_sizes.h"
#include "passes/shard/same_states.h"
#include "passes/shard/walk_keys.h"
#include "passes/train/init_program.h"
#include "passes/train/split_sums.h"
#include "passes/train/store_in_halves.h"
#include "passes/training_mfu.h"
#include "simulator/replay/library_memory.h"

namespace asyra {
namespace {

// The step and those beside it, each of which may need more memory than others.
constexpr int kMostPrograms = 4;

// Nothing is printed or written of a program beside the step.
CompileOptions Quiet(CompileOptions options) {
  options.manager = {};
  return options;
}

// Returns options without a search, for a program that runs seldom.
CompileOptions Plain(const CompileOptions& given, const Program& step) {
  CompileOptions options = Quiet(given);
  options.order_axes = false;
  options.schedule.tiles = 1;
  options.schedule.scheduler = "serial";
  options.schedule.search_steps = 1;
  options.reduce_scatter = "fused";
  options.over_hosts = "flat";
  options.key_walk = "never";
  options.head_parts = 1;
  options.sharding.experts.clear();
  options.sharding.tp_strategy = "sequence";
  options.sharding.padding = PaddedSizes(step);
  options.passes.clear();
  options.neighbour.reset();
  return options;
}

std::vector<std::string> ParamsOf(const Program& step) {
  std::vector<std::string> names;
  for (const Input& input : step.inputs) {
    if (input.role != InputRole::kParam) continue;
    names.push_back(step.value_name(input.value));
  }
  return names;
}

// Returns the hash of ops and weights, without the sizes of batches: a run may
// go on with others.
std::string HashOf(const Program& model) {
  uint64_t hash = Fnv1a("");
  for (const Input& input : model.inputs) {
    if (!IsWeight(input)) continue;
    hash = Fnv1a(model.value_name(input.value), hash);
    hash = Fnv1a(ShapeToString(model.GivenShape(input)), hash);
  }
  for (const Op& op : model.ops) hash = Fnv1a(op.def->name, hash);
  return fmt::format("{:016x}", hash);
}

// Returns the mesh that the step was compiled for, before its axes were split.
Mesh MeshOf(const Program& step) { return WithoutSplits(step.mesh); }

absl::StatusOr<Program> CompileInit(const RaisedProgram& model,
                                    const Machine& machine,
                                    const CompileOptions& options,
                                    const Program& step) {
  RaisedProgram init;
  ASYRA_ASSIGN_OR_RETURN(init.program,
                         InitProgram(model.program, ParamsOf(step), &step));
  CompileOptions plain = Plain(options, step);
  plain.train.reset();
  plain.sharding.pins = PinsLike(step, init.program);
  // It has no batch that an axis may shard, which plans insist on.
  plain.sharding.propagate = true;
  ASYRA_ASSIGN_OR_RETURN(CompileResult compiled,
                         Compile(init, MeshOf(step), machine, plain));
  return SplitAxes(std::move(compiled.program), SplitsOf(step.mesh));
}

// The program before it is sharded: which inputs it has.
absl::StatusOr<Program> GlobalAccumulate(const CompileOptions& options,
                                         const RaisedProgram& model) {
  Program program = model.program;
  PassContext context;
  ASYRA_RETURN_IF_ERROR(
      RunPasses(program, TrainPasses(*options.train), context));
  return program;
}

// Compiles over the mesh of the step, whose axes may be split.
absl::StatusOr<CompileResult> CompileOver(const RaisedProgram& model,
                                          const Machine& machine,
                                          const CompileOptions& options,
                                          const Mesh& mesh) {
  ASYRA_ASSIGN_OR_RETURN(CompileResult compiled,
                         Compile(model, WithoutSplits(mesh), machine, options));
  if (compiled.program.mesh == mesh) return compiled;
  ASYRA_ASSIGN_OR_RETURN(
      compiled.program, SplitAxes(std::move(compiled.program), SplitsOf(mesh)));
  return compiled;
}

// Returns the options that make a program agree with the step.
CompileOptions AccumulateOptions(const CompileOptions& given,
                                 const CompileResult& step) {
  CompileOptions options = Quiet(given);
  options.train->what = TrainOptions::What::kAccumulate;
  options.train->zero = std::to_string(step.zero);
  options.sharding.tp_strategy = step.tp_strategy;
  options.sharding.padding = PaddedSizes(step.program);
  options.order_axes = false;
  if (SplitsOf(step.program.mesh).empty()) options.over_hosts = "flat";
  options.key_walk = WalkOf(step.program);
  options.train->sums = SumAxesText(step.program, MeshOf(step.program));
  options.train->in_halves = HalvesText(step.program);
  return options;
}

}  // namespace

absl::StatusOr<CompileResult> CompileAccumulate(const RaisedProgram& model,
                                                const Machine& machine,
                                                const CompileOptions& options,
                                                const CompileResult& step) {
  CompileOptions own = AccumulateOptions(options, step);
  const Mesh& mesh = step.program.mesh;
  const int64_t capacity = CapacityOf(options.schedule, machine);
  int64_t others = 0;
  if (capacity > 0) {
    ASYRA_ASSIGN_OR_RETURN(Program global, GlobalAccumulate(own, model));
    others = BytesOfOthers(step.program, global);
    own.schedule.capacity_bytes = BytesLeft(capacity, others);
    // Takes the step's, unless it was asked for.
    own.schedule.allow_misfit |= !options.schedule.capacity_bytes.has_value();
  }
  absl::StatusOr<CompileResult> compiled =
      CompileOver(model, machine, own, mesh);
  if (compiled.ok() && !CheckAgree(step.program, compiled->program).ok()) {
    own.sharding.pins = PinsWhere(step.program, [&](const Input& input,
                                                    const std::string& name) {
      return compiled->program.FindValue(name) != kNoValue && IsUpdated(input);
    });
    compiled = CompileOver(model, machine, own, mesh);
  }
  if (std::optional<int64_t> least = LeastBytes(compiled.status())) {
    return NothingFits(capacity, *least + others);
  }
  if (!compiled.ok()) return Annotate(compiled.status(), "accumulate");
  ASYRA_RETURN_IF_ERROR(CheckAgree(step.program, compiled->program));
  compiled->program.name = "accumulate";
  return compiled;
}

absl::StatusOr<Program> CompileBeside(const RaisedProgram& model,
                                      const Machine& machine,
                                      const CompileOptions& options,
                                      TrainOptions::What what,
                                      const Program& step) {
  CompileOptions plain = Plain(options, step);
  plain.train->what = what;
  plain.train->in_halves = HalvesText(step);
  plain.sharding.pins = PinsLike(step, model.program);
  const Mesh mesh = MeshOf(step);
  absl::StatusOr<CompileResult> found = Compile(model, mesh, machine, plain);
  if (absl::IsResourceExhausted(found.status())) {
    plain.schedule.tiles = options.schedule.tiles;
    plain.schedule.scheduler = options.schedule.scheduler;
    plain.schedule.search_steps = options.schedule.search_steps;
    plain.key_walk = WalkOf(step);
    found = Compile(model, mesh, machine, plain);
  }
  if (LeastBytes(found.status()).has_value()) return found.status();
  if (!found.ok()) return Annotate(found.status(), "beside the step");
  ASYRA_ASSIGN_OR_RETURN(Program program, SplitAxes(std::move(found->program),
                                                    SplitsOf(step.mesh)));
  ASYRA_RETURN_IF_ERROR(CheckAgree(step, program));
  return program;
}

absl::StatusOr<std::vector<std::string>> ParameterNotes(
    const TrainOptions& train, const RaisedProgram& model) {
  TrainOptions options = train;
  options.what = TrainOptions::What::kGradients;
  Program program = model.program;
  PassContext context;
  ASYRA_RETURN_IF_ERROR(RunPasses(program, TrainPasses(options), context));
  return std::move(context.remarks);
}

namespace {

// The arguments that every compilation here takes.
struct Given {
  const RaisedProgram& model;
  const Mesh& mesh;
  const Machine& machine;
};
using CompileFn = absl::StatusOr<CompiledTraining> (*)(
    const Given& given, const CompileOptions& options);

absl::StatusOr<CompiledTraining> StepsOnce(const Given& given,
                                           const CompileOptions& options) {
  CompiledTraining training;
  ASYRA_ASSIGN_OR_RETURN(
      training.step, Compile(given.model, given.mesh, given.machine, options));
  // The programs beside are sharded over the whole axis first.
  if (options.factor_sequence && ShardsByParts(training.step.program)) {
    CompileOptions whole = options;
    whole.factor_sequence = false;
    return StepsOnce(given, whole);
  }
  bool is_whole = training.step.program.stage == Stage::kAllocated;
  if (!is_whole || options.train->accumulate == 1) return training;
  ASYRA_ASSIGN_OR_RETURN(
      training.accumulate,
      CompileAccumulate(given.model, given.machine, options, training.step));
  return training;
}

absl::StatusOr<CompiledTraining> TrainingOnce(const Given& given,
                                              const CompileOptions& options) {
  CompileOptions of_step = options;
  of_step.train->what = TrainOptions::What::kStep;
  of_step.schedule.runners_up = kGateRunnersUp;
  ASYRA_ASSIGN_OR_RETURN(CompiledTraining training, StepsOnce(given, of_step));
  const Program& step = training.step.program;
  if (step.stage != Stage::kAllocated) return training;  // with `passes`
  ASYRA_ASSIGN_OR_RETURN(training.evaluate,
                         CompileBeside(given.model, given.machine, options,
                                       TrainOptions::What::kEvaluate, step));
  training.evaluate.name = "evaluate";
  training.model_hash = HashOf(given.model.program);
  ASYRA_ASSIGN_OR_RETURN(training.notes,
                         ParameterNotes(*options.train, given.model));
  ASYRA_ASSIGN_OR_RETURN(
      training.init, CompileInit(given.model, given.machine, options, step));
  return training;
}

// Compiles; the error of a program that does not fit says how much is enough
// for all of them: the least that one takes may be too little for another one.
absl::StatusOr<CompiledTraining> OrEnough(CompileFn compile, const Given& given,
                                          const CompileOptions& options) {
  absl::StatusOr<CompiledTraining> training = compile(given, options);
  std::optional<int64_t> least = LeastBytes(training.status());
  if (!least.has_value()) return training;
  CompileOptions enough = Quiet(options);
  for (int i = 0; i < kMostPrograms; ++i) {
    // The capacity as it is printed and given back.
    enough.schedule.capacity_bytes =
        GibBytes(std::strtod(EnoughGib(*least).c_str(), nullptr));
    std::optional<int64_t> more = LeastBytes(compile(given, enough).status());
    if (!more.has_value()) break;
    least = more;
  }
  return NothingFits(CapacityOf(options.schedule, given.machine), *least);
}

absl::Status CheckTrains(const CompileOptions& options) {
  if (options.train.has_value()) return absl::OkStatus();
  return Invalid("the options have no `train`: nothing says how to train");
}

// Returns the guard that attach_updates chooses.
StepGuard GuardOf(const Program& step, double clip) {
  bool scales_loss = step.FindValue(kLossScaleLog2) != kNoValue;
  return clip == 0 && !scales_loss ? StepGuard::kLoss : StepGuard::kNorm;
}

}  // namespace

absl::StatusOr<CompiledTraining> CompileSteps(const RaisedProgram& model,
                                              const Mesh& mesh,
                                              const Machine& machine,
                                              const CompileOptions& options) {
  ASYRA_RETURN_IF_ERROR(CheckTrains(options));
  Given given{model, mesh, machine};
  if (options.train->accumulate == 1) return StepsOnce(given, options);
  return OrEnough(StepsOnce, given, options);
}

absl::StatusOr<CompiledTraining> CompileTraining(
    const RaisedProgram& model, const Mesh& mesh, const Machine& machine,
    const CompileOptions& options) {
  ASYRA_RETURN_IF_ERROR(CheckTrains(options));
  return OrEnough(TrainingOnce, Given{model, mesh, machine}, options);
}

int64_t KeptBytes(const Program& program, bool sums_only) {
  int64_t bytes = 0;
  for (const Input& input : program.inputs) {
    if (input.role == InputRole::kData) continue;
    if (sums_only && !IsAccumulated(program.value_name(input.value))) continue;
    bytes += LocalBytes(program.type(input.value), program.mesh);
  }
  return bytes;
}

BatchTimes BatchTimesOf(const CompileResult& accumulate,
                        const CompileResult& last, int64_t batches) {
  const Machine& machine = last.costs->machine();
  BatchTimes times;
  times.batches = batches;
  times.accumulate_us = accumulate.simulated->makespan_us;
  times.last_us = last.simulated->makespan_us;
  times.sum_bytes = KeptBytes(last.program, /*sums_only=*/true);
  times.clear_us = static_cast<double>(times.sum_bytes) /
                   machine.gpu.hbm_gbps.achievable / 1e3;
  return times;
}

TrainingPrograms ProgramsOf(const CompiledTraining& training,
                            const CompileOptions& options,
                            const std::string& model,
                            const std::string& machine) {
  const CompileResult& step = training.step;
  TrainingPrograms programs;
  TrainingInfo& info = programs.info;
  info.model = model;
  info.optimizer = options.train->optimizer;
  info.program_hash = training.model_hash;
  info.machine = machine;
  info.batches = options.train->accumulate;
  info.notes = training.notes;
  info.guard = GuardOf(step.program, options.train->clip);
  if (step.simulated.has_value()) {
    info.predicted_us =
        training.accumulate.has_value()
            ? BatchTimesOf(*training.accumulate, step, info.batches).total_us()
            : step.simulated->makespan_us;
    // The share of the peak in a step of 1 us.
    info.peak_us = TrainingMfu(step.program, step.costs->machine(), 1);
  }
  programs.step = step.program;
  programs.unscheduled = step.unscheduled;
  if (step.schedule.has_value()) {
    for (const RunnerUp& one : step.schedule->runners_up) {
      programs.candidates.push_back({one.name, one.program});
    }
  }
  if (training.accumulate.has_value()) {
    programs.accumulate = training.accumulate->program;
  }
  programs.evaluate = training.evaluate;
  programs.init = training.init;
  auto share = [&](Program* program) {
    program->weights = programs.step.weights;
  };
  share(&programs.evaluate);
  share(&programs.init);
  if (programs.unscheduled.has_value()) share(&*programs.unscheduled);
  if (programs.accumulate.has_value()) share(&*programs.accumulate);
  for (OtherStep& other : programs.candidates) share(&other.program);
  return programs;
}

}  // namespace asyra
