#include "tools/train/training.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "ir/split_axes.h"
#include "ir/support/hash.h"
#include "ir/support/status.h"
#include "ir/support/units.h"
#include "ir/training_names.h"
#include "ir/weights/weight_store.h"
#include "passes/search/capacity_error.h"
#include "passes/shard/padded_sizes.h"
#include "passes/train/init_program.h"
#include "passes/train/parameters.h"
#include "passes/train/split_sums.h"
#include "passes/train/store_in_halves.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine.h"
#include "simulator/replay/library_memory.h"
#include "tools/report/batches_report.h"
#include "tools/report/train_report.h"

namespace asyra {
namespace {

// The step and those beside it, each of which may need more memory than others.
constexpr int kMostPrograms = 4;

// A regular expression that matches the name alone.
std::string Literal(const std::string& name) {
  std::string text;
  for (char c : name) {
    if (std::string_view(".+*?()[]{}|^$\\").find(c) != std::string::npos) {
      text += '\\';
    }
    text += c;
  }
  return text;
}

// "0@dp,1@(sp,tp)", or "whole": over the mesh without splits, of a value that
// each of them leaves whole or shards with both of its axes.
std::string PinOfType(const Type& type, const Mesh& mesh) {
  Mesh whole = WithoutSplits(mesh);
  std::vector<std::string> dims;
  for (int d = 0; d < type.rank(); ++d) {
    const AxisList& axes = type.dims[d].axes;
    if (axes.empty()) continue;
    std::vector<std::string> names;
    for (AxisId axis : axes) {
      const std::string& name = mesh.name(axis);
      if (whole.Find(name) >= 0) names.push_back(name);
    }
    std::string joined = absl::StrJoin(names, ",");
    dims.push_back(names.size() > 1 ? fmt::format("{}@({})", d, joined)
                                    : fmt::format("{}@{}", d, joined));
  }
  return dims.empty() ? "whole" : absl::StrJoin(dims, ",");
}

// Of all weights and states of the step that `is_pinned`.
template <typename IsPinned>
std::string PinsWhere(const Program& step, IsPinned is_pinned) {
  std::vector<std::string> pins;
  for (const Input& input : step.inputs) {
    const std::string& name = step.value_name(input.value);
    if (input.role == InputRole::kData || !is_pinned(input, name)) continue;
    pins.push_back(fmt::format("{}={}", Literal(name),
                               PinOfType(step.type(input.value), step.mesh)));
  }
  return absl::StrJoin(pins, ";");
}

std::string PinsLike(const Program& step, const Program& other) {
  return PinsWhere(step, [&](const Input& input, const std::string& name) {
    return IsWeight(input) && other.FindValue(name) != kNoValue;
  });
}

// Nothing is printed or written of a program beside the step.
CompileFlags Quiet(CompileFlags flags) {
  flags.print_after.clear();
  flags.dump_dir.clear();
  flags.print_changed = flags.simulate_each = false;
  return flags;
}

// As fast as it is, for a program that runs seldom: nothing is searched.
CompileFlags Plain(const CompileFlags& given, const Program& step) {
  CompileFlags flags = Quiet(given);
  flags.dp = flags.tp = flags.sp = flags.ep = 1;
  flags.mesh.reset();
  if (step.mesh.num_axes() > 0) {
    flags.mesh = MeshText(WithoutSplits(step.mesh));
  }
  flags.tiles = 1;
  flags.scheduler = "serial";
  flags.search_steps = 1;
  flags.reduce_scatter = "fused";
  flags.over_hosts = "flat";
  flags.tp_strategy = "sequence";
  flags.padding = PaddedSizes(step);
  flags.passes.clear();
  return flags;
}

// Differences between the types of weights of two programs would be found when
// one reads what the other has written; here they have names.
absl::Status CheckAgree(const Program& step, const Program& other) {
  for (const Input& input : other.inputs) {
    if (!IsUpdated(input)) continue;
    const std::string& name = other.value_name(input.value);
    ValueId value = step.FindValue(name);
    if (value == kNoValue || step.type(value) == other.type(input.value)) {
      continue;
    }
    return Invalid("%{} is {} in @{}, {} in the training step", name,
                   ToString(other.type(input.value), other.mesh), other.name,
                   ToString(step.type(value), step.mesh));
  }
  return absl::OkStatus();
}

std::vector<std::string> ParamsOf(const Program& step) {
  std::vector<std::string> names;
  for (const Input& input : step.inputs) {
    if (input.role != InputRole::kParam) continue;
    names.push_back(step.value_name(input.value));
  }
  return names;
}

// Of ops and weights, without the sizes of batches: a run may go on with
// others.
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

absl::StatusOr<Program> CompileInit(const CompileFlags& flags,
                                    const RaisedModel& model,
                                    const std::vector<std::string>& names,
                                    const Program& step) {
  RaisedModel init;
  ASYRA_ASSIGN_OR_RETURN(init.raised.program,
                         InitProgram(model.raised.program, names, &step));
  CompileFlags plain = Plain(flags, step);
  plain.train.reset();
  plain.shard = PinsLike(step, init.raised.program);
  // It has no batch that an axis may shard, which plans insist on.
  plain.propagate = true;
  ASYRA_ASSIGN_OR_RETURN(CompiledModel compiled, CompileAlone(plain, init));
  return SplitAxes(std::move(compiled.program), SplitsOf(step.mesh));
}

// Of states of `step` that are no inputs of `other`, on a device.
int64_t BytesOfOthers(const Program& step, const Program& other) {
  int64_t bytes = 0;
  for (const Input& input : step.inputs) {
    if (input.role == InputRole::kData ||
        other.FindValue(step.value_name(input.value)) != kNoValue) {
      continue;
    }
    bytes += LocalBytes(step.type(input.value), step.mesh);
  }
  return bytes;
}

// The program before it is sharded: which inputs it has.
absl::StatusOr<Program> GlobalAccumulate(const CompileFlags& flags,
                                         const RaisedModel& model) {
  Program program = model.raised.program;
  PassContext context;
  ASYRA_RETURN_IF_ERROR(RunPasses(program, TrainPasses(*flags.train), context));
  return program;
}

// What the passes say of parameters and their gradients.
absl::StatusOr<std::vector<std::string>> ParameterNotes(
    const CompileFlags& flags, const RaisedModel& model) {
  TrainOptions options = *flags.train;
  options.what = TrainOptions::What::kGradients;
  Program program = model.raised.program;
  PassContext context;
  ASYRA_RETURN_IF_ERROR(RunPasses(program, TrainPasses(options), context));
  return std::move(context.remarks);
}

// Over the mesh of the step, whose axes may be split.
absl::StatusOr<CompiledModel> CompileOver(const CompileFlags& flags,
                                          const RaisedModel& model,
                                          const Mesh& mesh) {
  ASYRA_ASSIGN_OR_RETURN(CompiledModel compiled, Compile(flags, model));
  if (compiled.program.mesh == mesh) return compiled;
  ASYRA_ASSIGN_OR_RETURN(
      compiled.program, SplitAxes(std::move(compiled.program), SplitsOf(mesh)));
  return compiled;
}

}  // namespace

absl::StatusOr<CompiledModel> CompileAccumulate(const CompileFlags& flags,
                                                const RaisedModel& model,
                                                const CompiledModel& step) {
  CompileFlags own = Quiet(flags);
  own.train->what = TrainOptions::What::kAccumulate;
  own.train->zero = std::to_string(step.zero);
  own.tp_strategy = step.tp_strategy;
  own.padding = PaddedSizes(step.program);
  const Mesh& mesh = step.program.mesh;
  std::vector<AxisSplit> splits = SplitsOf(mesh);
  if (splits.empty()) own.over_hosts = "flat";
  if (mesh.num_axes() > 0) own.mesh = MeshText(WithoutSplits(mesh));
  own.train->sums = SumAxesText(step.program, WithoutSplits(mesh));
  own.train->in_halves = HalvesText(step.program);
  ASYRA_ASSIGN_OR_RETURN(Machine machine,
                         LoadMachine(flags.machine, MachineEdits(flags)));
  int64_t capacity = CapacityBytes(flags.capacity_gib, machine);
  int64_t others = 0;
  if (capacity > 0) {
    ASYRA_ASSIGN_OR_RETURN(Program global, GlobalAccumulate(own, model));
    others = BytesOfOthers(step.program, global);
    own.capacity_gib =
        std::max<double>(1, static_cast<double>(capacity - others)) / (1 << 30);
    // Takes the step's, unless it was asked for.
    own.allow_misfit = own.allow_misfit || flags.capacity_gib < 0;
  }
  absl::StatusOr<CompiledModel> compiled = CompileOver(own, model, mesh);
  if (compiled.ok() && !CheckAgree(step.program, compiled->program).ok()) {
    own.shard = PinsWhere(step.program, [&](const Input& input,
                                            const std::string& name) {
      return compiled->program.FindValue(name) != kNoValue && IsUpdated(input);
    });
    compiled = CompileOver(own, model, mesh);
  }
  if (std::optional<int64_t> least = LeastBytes(compiled.status())) {
    return NothingFits(capacity, *least + others);
  }
  if (!compiled.ok()) return Annotate(compiled.status(), "accumulate");
  ASYRA_RETURN_IF_ERROR(CheckAgree(step.program, compiled->program));
  compiled->program.name = "accumulate";
  return compiled;
}

absl::StatusOr<Program> CompileBeside(const CompileFlags& flags,
                                      const RaisedModel& model,
                                      TrainOptions::What what,
                                      const Program& step) {
  CompileFlags plain = Plain(flags, step);
  plain.train->what = what;
  plain.train->in_halves = HalvesText(step);
  plain.shard = PinsLike(step, model.raised.program);
  absl::StatusOr<CompiledModel> found = CompileAlone(plain, model);
  if (absl::IsResourceExhausted(found.status())) {
    plain.tiles = flags.tiles;
    plain.scheduler = flags.scheduler;
    plain.search_steps = flags.search_steps;
    found = CompileAlone(plain, model);
  }
  if (LeastBytes(found.status()).has_value()) return found.status();
  if (!found.ok()) return Annotate(found.status(), "beside the step");
  CompiledModel compiled = *std::move(found);
  ASYRA_ASSIGN_OR_RETURN(Program program, SplitAxes(std::move(compiled.program),
                                                    SplitsOf(step.mesh)));
  ASYRA_RETURN_IF_ERROR(CheckAgree(step, program));
  return program;
}

namespace {

using CompileFn = absl::StatusOr<Training> (*)(const CompileFlags& flags,
                                               const RaisedModel& model);

absl::StatusOr<Training> CompileStepsOnce(const CompileFlags& flags,
                                          const RaisedModel& model) {
  Training training;
  ASYRA_ASSIGN_OR_RETURN(training.step, Compile(flags, model));
  bool is_whole = training.step.program.stage == Stage::kAllocated;
  if (!is_whole || flags.train->accumulate == 1) return training;
  ASYRA_ASSIGN_OR_RETURN(training.accumulate,
                         CompileAccumulate(flags, model, training.step));
  return training;
}

absl::StatusOr<Training> CompileTrainingOnce(const CompileFlags& flags,
                                             const RaisedModel& model) {
  CompileFlags step_flags = flags;
  step_flags.train->what = TrainOptions::What::kStep;
  step_flags.runners_up = kGateRunnersUp;
  ASYRA_ASSIGN_OR_RETURN(Training training,
                         CompileStepsOnce(step_flags, model));
  const Program& step = training.step.program;
  if (step.stage != Stage::kAllocated) return training;  // with --passes
  ASYRA_ASSIGN_OR_RETURN(
      training.evaluate,
      CompileBeside(flags, model, TrainOptions::What::kEvaluate, step));
  training.evaluate.name = "evaluate";
  training.made = ParamsWithoutData(step);
  training.hash = HashOf(model.raised.program);
  ASYRA_ASSIGN_OR_RETURN(training.notes, ParameterNotes(flags, model));
  ASYRA_ASSIGN_OR_RETURN(training.init,
                         CompileInit(flags, model, ParamsOf(step), step));
  return training;
}

// Compiles; the error of a program that does not fit says how much is enough
// for all of them: the least that one takes may be too little for another one.
absl::StatusOr<Training> OrEnough(CompileFn compile, const CompileFlags& flags,
                                  const RaisedModel& model) {
  absl::StatusOr<Training> training = compile(flags, model);
  std::optional<int64_t> least = LeastBytes(training.status());
  if (!least.has_value()) return training;
  CompileFlags enough = Quiet(flags);
  for (int i = 0; i < kMostPrograms; ++i) {
    // The number as it is printed and given back.
    enough.capacity_gib = std::strtod(EnoughGib(*least).c_str(), nullptr);
    std::optional<int64_t> more = LeastBytes(compile(enough, model).status());
    if (!more.has_value()) break;
    least = more;
  }
  ASYRA_ASSIGN_OR_RETURN(Machine machine,
                         LoadMachine(flags.machine, MachineEdits(flags)));
  return NothingFits(CapacityBytes(flags.capacity_gib, machine), *least);
}

}  // namespace

absl::StatusOr<Training> CompileSteps(const CompileFlags& flags,
                                      const RaisedModel& model) {
  if (flags.train->accumulate == 1) return CompileStepsOnce(flags, model);
  return OrEnough(CompileStepsOnce, flags, model);
}

absl::StatusOr<Training> CompileTraining(const CompileFlags& flags,
                                         const RaisedModel& model) {
  return OrEnough(CompileTrainingOnce, flags, model);
}

void AddRotaryTables(double base, Program* program) {
  auto store = program->weights == nullptr
                   ? std::make_shared<WeightStore>()
                   : std::make_shared<WeightStore>(*program->weights);
  for (const Op& op : program->ops) {
    if (op.def->name != "rotary") continue;
    for (int operand : {1, 2}) {
      ValueId value = op.operands[operand];
      const std::string& name = program->value_name(value);
      bool weight =
          std::any_of(program->inputs.begin(), program->inputs.end(),
                      [&](const Input& input) {
                        return input.value == value && IsWeight(input);
                      });
      const Type& type = program->type(value);
      if (!weight || store->Find(name) != nullptr || type.rank() != 2) continue;
      std::vector<double> numbers;
      for (int64_t position = 0; position < type.size(0); ++position) {
        for (int64_t i = 0; i < type.size(1); ++i) {
          double angle = static_cast<double>(position) *
                         std::pow(base, -static_cast<double>(i) /
                                            static_cast<double>(type.size(1)));
          numbers.push_back(operand == 1 ? std::cos(angle) : std::sin(angle));
        }
      }
      store->Set(name, Tensor::FromDoubles(type.dtype, type.shape(), numbers));
    }
  }
  if (store->size() > 0) program->weights = std::move(store);
}

namespace {

// As attach_updates chooses it.
StepGuard GuardOf(const Program& step, double clip) {
  bool scales_loss = step.FindValue(kLossScaleLog2) != kNoValue;
  return clip == 0 && !scales_loss ? StepGuard::kLoss : StepGuard::kNorm;
}

}  // namespace

absl::StatusOr<TrainingPrograms> ProgramsOf(const Training& training,
                                            const CompileFlags& flags) {
  TrainingPrograms programs;
  TrainingInfo& info = programs.info;
  info.model = flags.model;
  info.optimizer = flags.train->optimizer;
  info.program_hash = training.hash;
  info.machine = flags.machine;
  info.batches = flags.train->accumulate;
  info.notes = training.notes;
  info.guard = GuardOf(training.step.program, flags.train->clip);
  if (training.step.simulated.has_value()) {
    info.predicted_us = training.step.simulated->makespan_us;
    ASYRA_ASSIGN_OR_RETURN(Machine machine,
                           LoadMachine(flags.machine, MachineEdits(flags)));
    if (training.accumulate.has_value()) {
      info.predicted_us =
          ReportBatches(*training.accumulate, training.step, info.batches)
              .total_us();
    }
    // The share of the peak in a step of 1 us.
    info.peak_us = TrainingMfu(training.step.program, machine, 1);
  }
  programs.step = training.step.program;
  programs.unscheduled = training.step.unscheduled;
  if (training.step.schedule.has_value()) {
    for (const RunnerUp& one : training.step.schedule->runners_up) {
      programs.candidates.push_back({one.name, one.program});
      programs.candidates.back().program.weights = programs.step.weights;
    }
  }
  if (training.accumulate.has_value()) {
    programs.accumulate = training.accumulate->program;
    programs.accumulate->weights = programs.step.weights;
  }
  programs.evaluate = training.evaluate;
  programs.init = training.init;
  programs.evaluate.weights = programs.init.weights = programs.step.weights;
  if (programs.unscheduled.has_value()) {
    programs.unscheduled->weights = programs.step.weights;
  }
  return programs;
}

}  // namespace asyra
