// asyra-train: trains a model on a file of tokens, or replays a recorded run.
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "CLI/CLI.hpp"
#include "executor/cpu/run_on_cpu.h"
#include "executor/cuda/device/cuda_platform.h"
#include "frontends/onnx/import.h"
#include "ir/support/file.h"
#include "ir/support/short_list.h"
#include "ir/support/status.h"
#include "ir/weight_store.h"
#include "models/models.h"
#include "passes/train/attach_loss.h"
#include "passes/train/attach_updates.h"
#include "passes/train/differentiate.h"
#include "tools/cache_warning.h"
#include "tools/compile.h"
#include "tools/gradient_check.h"
#include "tools/loss_page.h"
#include "tools/progress.h"
#include "tools/run_inputs.h"
#include "tools/run_tool.h"
#include "tools/token_file.h"
#include "tools/train_check.h"
#include "tools/train_flags.h"
#include "tools/train_run.h"
#include "tools/training.h"

namespace asyra {
namespace {

constexpr int64_t kSearchStepsOnCpu = 200;

struct Flags {
  CompileFlags compile;
  TrainOptions train;
  std::string data, check, csv, html, device = "cpu";
  int64_t steps = 0, warmup = -1, seed = 1;
  double rate = 0, final = 0.1, rtol = 2e-4, timeout_s = 60;
  int64_t every = 10;
  bool random_weights = false;
  // Flags that were given and only matter when a model is compiled.
  std::vector<std::string> of_compiling;
};

absl::StatusOr<std::unique_ptr<Platform>> PlatformOf(const Flags& flags) {
  if (flags.device == "cpu") return CreateCpuPlatform();
  return CreateCudaPlatform({.timeout_s = flags.timeout_s});
}

// Linear over the first steps, then a cosine down to a part of the peak.
double RateAt(const Flags& flags, int64_t warmup, int64_t step) {
  if (step < warmup) {
    return flags.rate * static_cast<double>(step + 1) /
           static_cast<double>(warmup);
  }
  double part = static_cast<double>(step - warmup) /
                static_cast<double>(std::max<int64_t>(1, flags.steps - warmup));
  return flags.rate *
         (flags.final + (1 - flags.final) * 0.5 * (1 + std::cos(M_PI * part)));
}

// The integer data input that holds the tokens, [rows, length].
absl::StatusOr<const Input*> TokensOf(const Program& step) {
  const Input* tokens = nullptr;
  for (const Input& input : step.inputs) {
    if (input.role != InputRole::kData) continue;
    const std::string& name = step.value_name(input.value);
    const Type& type = step.type(input.value);
    bool other =
        name == kLabels || name == "attention_mask" || name == "position_ids";
    if (other || type.dtype != DType::kI64 || type.rank() != 2) continue;
    if (tokens != nullptr) {
      return Invalid("both %{} and %{} may be the tokens",
                     step.value_name(tokens->value), name);
    }
    tokens = &input;
  }
  if (tokens != nullptr) return tokens;
  return Invalid(
      "no data input is i64 [rows, length]: the model takes no "
      "tokens");
}

// What a step takes besides tokens and labels.
absl::Status AddOthers(const Program& step, TrainData* data) {
  for (const Input& input : step.inputs) {
    if (input.role != InputRole::kData) continue;
    const std::string& name = step.value_name(input.value);
    const Type& type = step.type(input.value);
    bool given = name == kRate;
    for (const auto& one : *data) given |= one.first == name;
    if (given) continue;
    std::vector<double> numbers(type.num_elements(), 1);
    int64_t length = type.rank() > 0 ? type.dims.back().size : 1;
    if (name == "position_ids") {
      for (size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = static_cast<double>(static_cast<int64_t>(i) % length);
      }
    } else if (name != "attention_mask") {
      return Invalid(
          "%{} is neither tokens nor labels: the data has nothing "
          "for it",
          name);
    }
    data->emplace_back(name,
                       Tensor::FromDoubles(type.dtype, type.shape(), numbers));
  }
  return absl::OkStatus();
}

absl::StatusOr<Training> Prepare(const CompileFlags& flags,
                                 const RaisedModel& model) {
  ASYRA_RETURN_IF_ERROR(CheckTarget(flags));
  return CompileTraining(flags, model);
}

absl::StatusOr<RaisedModel> LoadForTraining(const CompileFlags& flags) {
  ASYRA_ASSIGN_OR_RETURN(RaisedModel model, LoadRaised(flags));
  AddRotaryTables(RotaryBase(flags.model), &model.raised.program);
  return model;
}

// The training of a folder, or of a model that is compiled here.
absl::StatusOr<Training> LoadTraining(const Flags& flags) {
  if (std::filesystem::is_directory(flags.compile.model)) {
    if (!flags.of_compiling.empty()) {
      return Invalid("{}: it is compiled already, {} would not matter",
                     flags.compile.model, ShortList(flags.of_compiling));
    }
    return ReadTraining(flags.compile.model);
  }
  ASYRA_ASSIGN_OR_RETURN(RaisedModel model, LoadForTraining(flags.compile));
  return Prepare(flags.compile, model);
}

// Prints each step, and writes them all at the end.
class Report {
 public:
  Report(const Flags& flags, int64_t tokens, int64_t steps)
      : flags_(flags), tokens_(tokens), steps_(steps) {}

  void operator()(const TrainMetrics& one) {
    metrics_.push_back(one);
    bool shown = one.step == 1 || one.step == steps_ ||
                 one.step % std::max<int64_t>(1, flags_.every) == 0;
    if (!shown) return;
    fmt::print("step {:>5}  loss {:.4f}  norm {:.3f}  {:.0f} tokens/s\n",
               one.step, one.loss, one.norm, TokensPerSecond(one));
    std::fflush(stdout);
  }

  absl::Status Write(const std::string& title) const {
    if (!flags_.csv.empty()) {
      std::string text = "step,loss,norm,tokens_per_s\n";
      for (const TrainMetrics& one : metrics_) {
        text += fmt::format("{},{:.17g},{:.17g},{:.1f}\n", one.step, one.loss,
                            one.norm, TokensPerSecond(one));
      }
      ASYRA_RETURN_IF_ERROR(WriteFileAtomically(flags_.csv, {text}));
    }
    if (flags_.html.empty()) return absl::OkStatus();
    return WriteFileAtomically(flags_.html, {LossPage(title, metrics_)});
  }

  const std::vector<TrainMetrics>& metrics() const { return metrics_; }

 private:
  double TokensPerSecond(const TrainMetrics& one) const {
    return one.seconds > 0 ? static_cast<double>(tokens_) / one.seconds : 0;
  }

  const Flags& flags_;
  int64_t tokens_, steps_;
  std::vector<TrainMetrics> metrics_;
};

absl::Status CheckTokens(const TokenFile& file, const Program& step,
                         ValueId tokens, const std::string& path) {
  int64_t rows = TokenLimit(step, tokens);
  if (file.largest() < rows) return absl::OkStatus();
  return Invalid("{}: it has the token {}, the model has {} of them", path,
                 file.largest(), rows);
}

// The label of a token is the next one: logits for each of them, of as many
// classes as there are tokens. A model that ends in a loss has no labels here.
absl::Status CheckLabels(const TokenFile& file, const Program& step,
                         const Shape& tokens, const std::string& path) {
  for (const Input& input : step.inputs) {
    if (step.value_name(input.value) != kLabels) continue;
    const Type& labels = step.type(input.value);
    if (labels.dtype != DType::kI64 || labels.shape() != tokens) {
      return Invalid(
          "the model's labels are {}{}, those of tokens {} are i64{}: its "
          "output is not logits for each token",
          ToString(labels.dtype), ShapeToString(labels.shape()),
          ShapeToString(tokens), ShapeToString(tokens));
    }
    int64_t classes = ClassLimit(step);
    if (file.largest() < classes) return absl::OkStatus();
    return Invalid("{}: it has the token {}, the model's output has {} classes",
                   path, file.largest(), classes);
  }
  return absl::OkStatus();
}

absl::Status TrainOnData(const Flags& flags) {
  ASYRA_ASSIGN_OR_RETURN(TokenFile file, TokenFile::Open(flags.data));
  ASYRA_ASSIGN_OR_RETURN(Training training, LoadTraining(flags));
  if (flags.random_weights) StartFromInit(&training);
  const Program& step = training.step.program;
  ASYRA_ASSIGN_OR_RETURN(const Input* tokens, TokensOf(step));
  ASYRA_RETURN_IF_ERROR(CheckTokens(file, step, tokens->value, flags.data));
  Shape shape = step.type(tokens->value).shape();
  ASYRA_RETURN_IF_ERROR(CheckLabels(file, step, shape, flags.data));
  std::string name = step.value_name(tokens->value);
  ASYRA_RETURN_IF_ERROR(file.At(0, shape[0], shape[1]).status());
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform, PlatformOf(flags));
  int64_t warmup = flags.warmup >= 0 ? flags.warmup
                                     : std::min<int64_t>(flags.steps / 10, 100);
  Report report(flags, shape[0] * shape[1], flags.steps);
  fmt::print("{} on {}: {} {} of {} tokens a step, {} {} of data\n",
             flags.compile.model, ToString(step.mesh), shape[0],
             shape[0] == 1 ? "row" : "rows", shape[1], file.size(),
             file.is_bytes() ? "bytes" : "tokens");
  if (!training.made.empty()) {
    fmt::print("{} of the params begin with random values, seed {}\n",
               training.made.size(), flags.seed);
  }
  TrainRun run{.training = &training,
               .platform = platform.get(),
               .steps = flags.steps,
               .seed = flags.seed,
               .timeout_s = flags.timeout_s};
  run.data = [&](int64_t number) -> absl::StatusOr<TrainData> {
    ASYRA_ASSIGN_OR_RETURN(TokenFile::Batch batch,
                           file.At(number, shape[0], shape[1]));
    TrainData data = {{name, batch.tokens}, {kLabels, batch.labels}};
    ASYRA_RETURN_IF_ERROR(AddOthers(step, &data));
    return data;
  };
  run.rate = [&](int64_t number) { return RateAt(flags, warmup, number); };
  run.report = [&](const TrainMetrics& one) { report(one); };
  ASYRA_ASSIGN_OR_RETURN(TrainResult result, Train(run));
  fmt::print("memory {:.1f} MiB a device\n",
             static_cast<double>(result.memory.total()) / (1 << 20));
  return report.Write(flags.compile.model);
}

// The step of a recorded run, beside the numbers of the file.
absl::Status ReplayRun(const Flags& given) {
  Flags flags = given;
  ASYRA_ASSIGN_OR_RETURN(RecordedRun recorded,
                         ReadRecordedRun(flags.check, &*flags.compile.train));
  Tensor first = recorded.Batch(recorded.ids, 0);
  flags.compile.recorded = {{"input_ids", first}};
  ASYRA_ASSIGN_OR_RETURN(RaisedModel model, LoadForTraining(flags.compile));
  ASYRA_ASSIGN_OR_RETURN(Training training, Prepare(flags.compile, model));
  if (!training.made.empty()) {
    return Invalid("--check: there is no data for the weights {}",
                   ShortList(training.made));
  }
  const Program& step = training.step.program;
  ASYRA_ASSIGN_OR_RETURN(
      Program forward,
      CompileBeside(flags.compile, model, TrainOptions::What::kForward, step));
  ASYRA_ASSIGN_OR_RETURN(const Input* tokens, TokensOf(step));
  std::string name = step.value_name(tokens->value);
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform, PlatformOf(flags));
  Report report(flags, first.num_elements(), recorded.steps());
  TrainRun run{.training = &training,
               .platform = platform.get(),
               .steps = recorded.steps(),
               .timeout_s = flags.timeout_s,
               .last = &forward};
  run.data = [&](int64_t number) -> absl::StatusOr<TrainData> {
    TrainData data = {{name, recorded.Batch(recorded.ids, number)},
                      {kLabels, recorded.Batch(recorded.labels, number)}};
    ASYRA_RETURN_IF_ERROR(AddOthers(step, &data));
    return data;
  };
  run.rate = [&](int64_t number) { return recorded.rate[number]; };
  run.report = [&](const TrainMetrics& one) { report(one); };
  run.last_data = {{name, first}};
  ASYRA_RETURN_IF_ERROR(AddOthers(forward, &run.last_data));
  ASYRA_ASSIGN_OR_RETURN(TrainResult result, Train(run));

  double loss = 0, norm = 0;
  for (const TrainMetrics& one : report.metrics()) {
    loss = Worse(loss, RelativeError(one.loss, recorded.loss[one.step - 1]));
    norm = Worse(norm, RelativeError(one.norm, recorded.norm[one.step - 1]));
  }
  ASYRA_ASSIGN_OR_RETURN(double logits, ErrorOfLargest(result.last_outputs[0],
                                                       recorded.logits_after));
  fmt::print(
      "largest relative errors of {} steps: loss {:.2e}, norm {:.2e}; "
      "logits after, of the largest, {:.2e}\n",
      recorded.steps(), loss, norm, logits);
  ASYRA_RETURN_IF_ERROR(report.Write(flags.compile.model));
  bool ok = loss <= flags.rtol && norm <= flags.rtol && logits <= flags.rtol;
  if (ok) {
    fmt::print("ok: within --rtol {}\n", flags.rtol);
    return absl::OkStatus();
  }
  return Invalid("--check: errors are beyond --rtol {}", flags.rtol);
}

absl::StatusOr<std::vector<Tensor>> RunOnce(const Flags& flags,
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
  fmt::print("loss: relative error {:.2e}\n", loss);
  fmt::print(
      "{} gradients compared by name, {} with the recorded one of the "
      "same numbers; largest error {:.2e}, of {}\n",
      check.by_name, check.by_value, check.worst,
      check.worst_name.empty() ? "none" : check.worst_name);
  if (!check.padding.empty()) {
    fmt::print(
        "left out, as the recorded one is 0 there: {} (an embedding's "
        "padding_idx?)\n",
        ShortList(check.padding));
  }
  if (!check.unknown.empty()) {
    fmt::print("{} not recorded: {}\n", check.unknown.size(),
               ShortList(check.unknown));
  }
  if (!check.missing.empty()) {
    fmt::print("{} recorded, not computed: {}\n", check.missing.size(),
               ShortList(check.missing));
  }
  bool compared = check.by_name + check.by_value > 0;
  if (compared && loss <= rtol && check.worst <= rtol &&
      check.unknown.empty() && check.missing.empty()) {
    fmt::print("ok: within --rtol {}\n", rtol);
    return absl::OkStatus();
  }
  return Invalid(
      "--check: gradients are beyond --rtol {} or without a "
      "recorded one",
      rtol);
}

// Loss and gradients of a model that ends in a loss.
absl::Status CheckFolder(const Flags& given) {
  Flags flags = given;
  std::filesystem::path folder(flags.check);
  ASYRA_ASSIGN_OR_RETURN(TestData recorded,
                         ReadTestData((folder / "test_data_set_0").string()));
  ASYRA_ASSIGN_OR_RETURN(
      std::shared_ptr<const WeightStore> gradients,
      ReadWeights((folder / "gradients.safetensors").string()));
  flags.compile.recorded = recorded.inputs;
  flags.compile.train->what = TrainOptions::What::kGradients;
  ASYRA_ASSIGN_OR_RETURN(CompiledModel compiled, Compile(flags.compile));
  const Program& program = compiled.program;
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> outputs,
                         RunOnce(flags, program, recorded.inputs));
  double loss = 0, count = 1;
  std::map<std::string, Tensor> computed;
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string name = program.output_name(program.outputs[i]);
    if (name == kLossSum) loss = outputs[i].Get(0);
    if (name == kLossCount) count = outputs[i].Get(0);
    std::string suffix = GradientName("");
    if (!name.ends_with(suffix)) continue;
    computed[name.substr(0, name.size() - suffix.size())] = outputs[i];
  }
  ASYRA_ASSIGN_OR_RETURN(GradientCheck check,
                         CheckGradients(computed, *gradients, flags.rtol));
  return PrintGradients(
      check, RelativeError(loss / count, recorded.outputs[0].second.Get(0)),
      flags.rtol);
}

absl::Status CheckFlags(const Flags& flags) {
  if (flags.data.empty() == flags.check.empty()) {
    return Invalid("either --data or --check is needed");
  }
  // Files are written after the last step: better to know before the first.
  for (const std::string& path : {flags.csv, flags.html}) {
    std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (folder.empty() || std::filesystem::is_directory(folder)) continue;
    return NotFound("{}: there is no folder {}", path, folder.string());
  }
  if (!flags.check.empty()) return absl::OkStatus();
  if (flags.steps < 1) {
    return Invalid("--steps is {}, it must be at least 1", flags.steps);
  }
  if (!(flags.rate > 0)) {
    return Invalid("--rate is {}, it must be above 0", flags.rate);
  }
  if (flags.warmup > flags.steps) {
    return Invalid("--warmup is {}, --steps {}", flags.warmup, flags.steps);
  }
  return absl::OkStatus();
}

absl::Status Main(Flags flags) {
  ASYRA_RETURN_IF_ERROR(CheckFlags(flags));
  flags.compile.train = flags.train;
  if (flags.device == "cuda") flags.compile.graph = true;
  absl::Status status = flags.check.empty() ? TrainOnData(flags)
                        : std::filesystem::is_directory(flags.check)
                            ? CheckFolder(flags)
                            : ReplayRun(flags);
  WarnOfCache("asyra-train");
  return status;
}

// Those of `options` that were given.
std::vector<std::string> Given(const std::vector<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) {
    bool flag = !option->get_positional() && option->get_name() != "--help";
    if (flag && option->count() > 0) names.push_back(option->get_name());
  }
  return names;
}

void AddFlags(CLI::App& app, Flags* flags) {
  app.add_option("--data", flags->data,
                 "FILE of tokens: of llm.c, or any other, whose bytes are "
                 "tokens");
  app.add_option("--steps", flags->steps, "how many");
  app.add_option("--rate", flags->rate, "the largest learning rate");
  app.add_option(
      "--warmup", flags->warmup,
      "steps in which the rate rises to it: a tenth of the steps, at "
      "most 100, unless given");
  app.add_option("--final", flags->final,
                 "the part of it that is left at the end of the cosine")
      ->capture_default_str();
  app.add_option("--seed", flags->seed,
                 "of the random values that weights without data begin with")
      ->capture_default_str();
  app.add_flag("--random-weights", flags->random_weights,
               "all weights that are trained begin with random values, also "
               "those that the model has data for");
  app.add_option("--device", flags->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--every", flags->every, "steps between two lines")
      ->capture_default_str();
  app.add_option("--csv", flags->csv,
                 "writes step,loss,norm,tokens_per_s here");
  app.add_option("--html", flags->html, "writes a page with the loss here");
  app.add_option("--check", flags->check,
                 "FILE.safetensors of a recorded run, which is replayed, or a "
                 "folder with test_data_set_0 and gradients.safetensors: "
                 "compares, and fails beyond --rtol");
  app.add_option("--rtol", flags->rtol, "largest relative error of --check")
      ->capture_default_str();
  app.add_option("--timeout", flags->timeout_s,
                 "seconds after which a rank that is waited for is lost")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

}  // namespace
}  // namespace asyra

int main(int argc, char** argv) {
  asyra::Flags flags;
  CLI::App app(
      "Trains a model on a file of tokens: compiles its training step for a "
      "mesh and runs it on ranks that are threads. With --check it compares "
      "with a recorded run.",
      "asyra-train");
  asyra::AddModelFlag(app, &flags.compile);
  asyra::AddCompileFlags(app, &flags.compile);
  // Which inputs are data has another flag in the other tools.
  app.remove_option(app.get_option("--data"));
  asyra::AddTrainFlags(app, &flags.train);
  std::vector<CLI::Option*> compiling = app.get_options();
  flags.compile.progress = asyra::Progress("asyra-train");
  asyra::AddFlags(app, &flags);
  return asyra::RunTool(app, argc, argv, [&] {
    flags.of_compiling = asyra::Given(compiling);
    // On cpus a schedule that was searched for a GPU does not pay its time.
    if (flags.device == "cpu" && app.count("--search-steps") == 0) {
      flags.compile.search_steps = asyra::kSearchStepsOnCpu;
    }
    return asyra::Main(flags);
  });
}
