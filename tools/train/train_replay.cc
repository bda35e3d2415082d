#include "tools/train/train_replay.h"

#include <filesystem>
#include <map>

#include "executor/comm/thread_world.h"
#include "executor/train/token_batches.h"
#include "executor/trainer.h"
#include "fmt/format.h"
#include "frontends/onnx/import.h"
#include "ir/support/short_list.h"
#include "ir/support/status.h"
#include "ir/weights/shard_reader.h"
#include "ir/weights/weight_store.h"
#include "models/models.h"
#include "models/rotary_tables.h"
#include "passes/train/attach_loss.h"
#include "passes/train/differentiate.h"
#include "tools/run/convert_tensor.h"
#include "tools/run/run_inputs.h"
#include "tools/standard_output.h"
#include "tools/train/gradient_check.h"
#include "tools/train/train_check.h"
#include "tools/train/train_progress.h"

namespace asyra {
namespace {

absl::StatusOr<std::vector<Tensor>> RunOnce(const TrainSettings& flags,
                                            const Program& program,
                                            const NamedTensors& inputs) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> given,
                         RunInputs(program, inputs, flags.seed));
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform, PlatformOf(flags));
  ASYRA_ASSIGN_OR_RETURN(
      RunResult result,
      RunOnThreads(program, given, *platform, {.timeout_s = flags.timeout_s}));
  return std::move(result.outputs);
}

absl::Status PrintGradients(const GradientCheck& check, double loss,
                            double rtol) {
  Print("loss: relative error {:.2e}\n", loss);
  Print(
      "{} gradients compared by name, {} with the recorded one of the "
      "same numbers; largest error {:.2e}, of {}\n",
      check.by_name, check.by_value, check.worst,
      check.worst_name.empty() ? "none" : check.worst_name);
  if (!check.padding.empty()) {
    Print(
        "left out, as the recorded one is 0 there: {} (an embedding's "
        "padding_idx?)\n",
        ShortList(check.padding));
  }
  if (!check.unknown.empty()) {
    Print("{} not recorded: {}\n", check.unknown.size(),
          ShortList(check.unknown));
  }
  if (!check.missing.empty()) {
    Print("{} recorded, not computed: {}\n", check.missing.size(),
          ShortList(check.missing));
  }
  bool compared = check.by_name + check.by_value > 0;
  if (compared && loss <= rtol && check.worst <= rtol &&
      check.unknown.empty() && check.missing.empty()) {
    Print("ok: within --rtol {}\n", rtol);
    return absl::OkStatus();
  }
  return Invalid(
      "--check: gradients are beyond --rtol {} or without a "
      "recorded one",
      rtol);
}

// This rank's parts of the inputs of a program that are called tokens and
// labels, and of those that are the same in each batch.
absl::StatusOr<std::vector<Tensor>> BatchOf(const Program& program,
                                            const std::string& tokens,
                                            const Tensor& ids,
                                            const Tensor& labels,
                                            int64_t rank) {
  Type of_tokens(ids.dtype(), ids.shape());
  std::vector<Tensor> batch;
  for (const Input& input : program.inputs) {
    const std::string& name = program.value_name(input.value);
    const Type& type = program.type(input.value);
    if (input.role != InputRole::kData || name == kRate) continue;
    Tensor whole = name == tokens ? ids : labels;
    if (name != tokens && name != kLabels) {
      ASYRA_ASSIGN_OR_RETURN(whole, FixedInput(name, type, of_tokens));
    }
    ASYRA_RETURN_IF_ERROR(CheckStored(program, input, whole));
    batch.push_back(Shard(whole, type, program.mesh, rank));
  }
  return batch;
}

// The recorded steps on one rank; its outputs of `forward` after the last.
absl::StatusOr<std::vector<Tensor>> Replay(const RecordedRun& recorded,
                                           const TrainingPrograms& programs,
                                           const Program& forward,
                                           Device& device, Communicator& world,
                                           TrainProgress* progress) {
  ASYRA_ASSIGN_OR_RETURN(const Input* tokens, TokensOf(programs.step));
  std::string name = programs.step.value_name(tokens->value);
  ASYRA_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(programs));
  ASYRA_RETURN_IF_ERROR(trainer->Prepare(device, &world, {.evaluates = false}));
  for (int64_t step = 0; step < recorded.steps(); ++step) {
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<Tensor> batch,
        BatchOf(programs.step, name, recorded.Batch(recorded.ids, step),
                recorded.Batch(recorded.labels, step), world.rank()));
    ASYRA_RETURN_IF_ERROR(trainer->Step(batch, {.rate = recorded.rate[step]}));
  }
  ASYRA_RETURN_IF_ERROR(trainer->Finish());
  for (const TrainMetrics& one : trainer->TakeMetrics()) {
    if (progress != nullptr) progress->Add(one);
  }
  ASYRA_ASSIGN_OR_RETURN(auto last, Executor::Load(forward));
  ExecutorOptions options;
  options.states =
      std::shared_ptr<StateSet>(std::shared_ptr<void>(), &trainer->states());
  ASYRA_RETURN_IF_ERROR(last->Prepare(device, &world, nullptr, options));
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> inputs,
                         BatchOf(forward, name, recorded.Batch(recorded.ids, 0),
                                 {}, world.rank()));
  ASYRA_RETURN_IF_ERROR(last->Step(inputs));
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < forward.outputs.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(outputs.emplace_back(), last->Output(i));
  }
  return outputs;
}

}  // namespace

absl::StatusOr<RaisedModel> LoadForTraining(const CompileFlags& flags) {
  ASYRA_ASSIGN_OR_RETURN(RaisedModel model, LoadRaised(flags));
  AddRotaryTables(RotaryBase(flags.model), &model.raised.program);
  return model;
}

absl::Status ReplayRun(const TrainSettings& given) {
  TrainSettings flags = given;
  ASYRA_ASSIGN_OR_RETURN(RecordedRun recorded,
                         ReadRecordedRun(flags.check, &*flags.compile.train));
  Tensor first = recorded.Batch(recorded.ids, 0);
  flags.compile.recorded = {{"input_ids", first}};
  ASYRA_ASSIGN_OR_RETURN(RaisedModel model, LoadForTraining(flags.compile));
  ASYRA_RETURN_IF_ERROR(CheckTarget(flags.compile));
  ASYRA_ASSIGN_OR_RETURN(CompiledTraining training,
                         CompileTraining(flags.compile, model));
  const Program& step = training.step.program;
  if (std::vector<std::string> made = ParamsWithoutData(step); !made.empty()) {
    return Invalid("--check: there is no data for the weights {}",
                   ShortList(made));
  }
  ASYRA_ASSIGN_OR_RETURN(
      Program forward,
      CompileBeside(flags.compile, model, TrainOptions::What::kForward, step));
  ASYRA_ASSIGN_OR_RETURN(TrainingPrograms programs,
                         ProgramsOf(training, flags.compile));
  PrintNotes(programs.info.notes);
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform, PlatformOf(flags));
  int64_t ranks = programs.step.mesh.num_devices();
  ASYRA_RETURN_IF_ERROR(platform->CheckRanks(ranks));
  TrainProgress progress(flags, recorded.steps());
  ASYRA_RETURN_IF_ERROR(progress.Begin());
  std::vector<Tensor> last(ranks);
  ASYRA_RETURN_IF_ERROR(RunLocalRanks(
      ranks, {.timeout_s = flags.timeout_s},
      [&](Communicator& control) -> absl::Status {
        int64_t rank = control.rank();
        ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                               platform->MakeDevice(rank, ranks));
        ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> connected,
                               platform->Connect(control, *device));
        Communicator& world = connected == nullptr ? control : *connected;
        ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> outputs,
                               Replay(recorded, programs, forward, *device,
                                      world, rank == 0 ? &progress : nullptr));
        last[rank] = outputs[0];
        return absl::OkStatus();
      }));
  Tensor logits_after =
      Unshard(last, forward.type(forward.outputs[0].value), forward.mesh);

  double loss = 0, norm = 0;
  for (const TrainMetrics& one : progress.metrics()) {
    loss = Worse(loss, RelativeError(one.loss, recorded.loss[one.step - 1]));
    norm = Worse(norm, RelativeError(one.norm, recorded.norm[one.step - 1]));
  }
  ASYRA_ASSIGN_OR_RETURN(double logits,
                         ErrorOfLargest(logits_after, recorded.logits_after));
  Print(
      "largest relative errors of {} steps: loss {:.2e}, norm {:.2e}; "
      "logits after, of the largest, {:.2e}\n",
      recorded.steps(), loss, norm, logits);
  ASYRA_RETURN_IF_ERROR(progress.Write(flags.compile.model));
  bool ok = loss <= flags.rtol && norm <= flags.rtol && logits <= flags.rtol;
  if (ok) {
    Print("ok: within --rtol {}\n", flags.rtol);
    return absl::OkStatus();
  }
  return Invalid("--check: errors are beyond --rtol {}", flags.rtol);
}

namespace {

// The recorded inputs in the float types of the program, --dtype's, and a scale
// of the loss that changes nothing.
absl::StatusOr<NamedTensors> InputsOfCheck(const Program& program,
                                           NamedTensors inputs) {
  for (auto& [name, tensor] : inputs) {
    ValueId value = program.FindValue(name);
    if (value == kNoValue || !IsFloat(tensor.dtype())) continue;
    DType dtype = program.type(value).dtype;
    if (!IsFloat(dtype) || tensor.dtype() == dtype) continue;
    ASYRA_ASSIGN_OR_RETURN(tensor,
                           ConvertTensor(tensor, dtype, /*round=*/true));
  }
  if (program.FindValue(kLossScale) != kNoValue) {
    inputs.emplace_back(kLossScale, Tensor::FromDoubles(DType::kF32, {}, {1}));
  }
  return inputs;
}

// By name of the param, of the mean of `count` terms: the outputs are those of
// their sum.
std::map<std::string, Tensor> MeanGradients(const Program& program,
                                            const std::vector<Tensor>& outputs,
                                            double count) {
  std::map<std::string, Tensor> gradients;
  std::string suffix = GradientName("");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = program.output_name(program.outputs[i]);
    if (!name.ends_with(suffix)) continue;
    Tensor gradient = outputs[i];
    if (count != 1) {
      std::vector<double> elements = gradient.ToDoubles();
      for (double& element : elements) element /= count;
      gradient =
          Tensor::FromDoubles(gradient.dtype(), gradient.shape(), elements);
    }
    gradients[name.substr(0, name.size() - suffix.size())] =
        std::move(gradient);
  }
  return gradients;
}

}  // namespace

absl::Status CheckFolder(const TrainSettings& given) {
  TrainSettings flags = given;
  std::filesystem::path folder(flags.check);
  ASYRA_ASSIGN_OR_RETURN(TestData recorded,
                         ReadTestData((folder / "test_data_set_0").string()));
  ASYRA_ASSIGN_OR_RETURN(
      std::shared_ptr<const WeightStore> gradients,
      ReadWeights((folder / "gradients.safetensors").string()));
  flags.compile.recorded = recorded.inputs;
  flags.compile.train->what = TrainOptions::What::kGradients;
  ASYRA_RETURN_IF_ERROR(CheckTarget(flags.compile));
  ASYRA_ASSIGN_OR_RETURN(RaisedModel model, LoadRaised(flags.compile));
  ASYRA_ASSIGN_OR_RETURN(CompiledModel compiled, Compile(flags.compile, model));
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> notes,
                         ParameterNotes(*flags.compile.train, model.raised));
  PrintNotes(notes);
  const Program& program = compiled.program;
  ASYRA_ASSIGN_OR_RETURN(NamedTensors inputs,
                         InputsOfCheck(program, recorded.inputs));
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> outputs,
                         RunOnce(flags, program, inputs));
  double loss = 0, count = 1;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = program.output_name(program.outputs[i]);
    if (name == kLossSum) loss = outputs[i].Get(0);
    if (name == kLossCount) count = outputs[i].Get(0);
  }
  ASYRA_ASSIGN_OR_RETURN(
      GradientCheck check,
      CheckGradients(
          WholeGradients(program, MeanGradients(program, outputs, count)),
          *gradients, flags.rtol));
  return PrintGradients(
      check, RelativeError(loss / count, recorded.outputs[0].second.Get(0)),
      flags.rtol);
}

}  // namespace asyra
