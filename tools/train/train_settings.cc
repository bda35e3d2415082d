#include "tools/train/train_settings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "CLI/CLI.hpp"
#include "executor/cpu/run_on_cpu.h"
#include "executor/cuda/device/cuda_platform.h"
#include "frontends/huggingface/import.h"
#include "ir/support/path.h"
#include "ir/support/status.h"
#include "tools/connect_ranks.h"
#include "tools/output_file.h"
#include "tools/run/number_check.h"
#include "tools/run/run_gate.h"
#include "tools/train/train_modes.h"

namespace asyra {
namespace {

const std::map<std::string, TokenForm>& TokenForms() {
  static const auto* const forms =
      new std::map<std::string, TokenForm>{{"auto", TokenForm::kAuto},
                                           {"bytes", TokenForm::kBytes},
                                           {"u16", TokenForm::kU16},
                                           {"u32", TokenForm::kU32}};
  return *forms;
}

void AddDataFlags(CLI::App& app, TrainSettings* flags) {
  app.add_option("--data", flags->data,
                 "FILES of tokens, names or patterns as '*.bin': of llm.c, or "
                 "any other, whose bytes are tokens");
  app.add_option_function<std::string>(
         "--tokens",
         [flags](const std::string& name) {
           flags->tokens = TokenForms().at(name);
         },
         "how the files have them: auto, bytes, u16 or u32")
      ->check(CLI::IsMember(TokenForms()))
      ->type_name("TEXT")
      ->default_str("auto");
  app.add_flag("--shuffle,!--no-shuffle", flags->shuffle,
               "each epoch in another order, by the seed")
      ->capture_default_str();
  app.add_option("--document-end", flags->document_end,
                 "TOKEN that ends each document: tokens see their own alone, "
                 "and none is trained to tell the first of the next one; the "
                 "model is compiled with --documents, as many as the data has "
                 "unless given")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--restart-data", flags->restart_data,
               "a run that goes on from a checkpoint begins the data anew: it "
               "may be other data, or have another seed");
  app.add_option("--evaluate-every", flags->evaluate_every,
                 "steps after which the loss is computed on data that is not "
                 "trained on; 0: never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--evaluate-data", flags->evaluate_data,
                 "FILES of tokens to evaluate on; the last ones of --data "
                 "unless given, which are then not trained on");
  app.add_option("--evaluate-batches", flags->evaluate_batches,
                 "how many batches that takes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void AddOutputFlags(CLI::App& app, TrainSettings* flags) {
  app.add_option("--checkpoint", flags->checkpoint,
                 "DIR of checkpoints: the run goes on from the newest complete "
                 "one there, and leaves one at its end");
  app.add_option("--save-every", flags->save_every,
                 "steps between two checkpoints; 0: only at the end")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--keep", flags->keep, "the newest checkpoints that stay")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--export", flags->export_to,
                 "FILE.safetensors for all weights at the end, under the names "
                 "of the model")
      ->check(ReplacedFile());
  app.add_option("--export-onnx", flags->export_onnx,
                 "FILE.onnx for the model at the end: the file that it came "
                 "from, with the trained weights")
      ->check(ReplacedFile());
  app.add_option("--export-hf", flags->export_hf,
                 "FOLDER for the model at the end as transformers reads it: "
                 "the config.json that it came from, and model.safetensors");
  app.add_option("--every", flags->every,
                 "steps between two lines: 1 on a terminal, else 10, unless "
                 "given")
      ->check(CLI::PositiveNumber);
  app.add_option("--log", flags->log,
                 "appends a line of JSON for each step to FILE")
      ->check(OutputFile());
  app.add_option("--csv", flags->csv, "writes step,loss,norm,tokens_per_s here")
      ->check(OutputFile());
  app.add_option("--html", flags->html,
                 "writes a page with curves of loss, norm and speed, and the "
                 "timeline of the last step, predicted and as it ran")
      ->check(OutputFile());
  app.add_option("--profile", flags->profile,
                 "writes a trace of rank 0's last step, for Perfetto")
      ->check(OutputFile());
}

void AddSampleFlags(CLI::App& app, SampleOptions* sample) {
  app.add_option("--sample", sample->count,
                 "does not train: prints as many bytes of text that the model "
                 "writes at the newest checkpoint")
      ->check(CLI::PositiveNumber);
  app.add_option("--prompt", sample->prompt, "TEXT that it goes on from");
  app.add_option("--temperature", sample->temperature,
                 "that logits are divided by; 0: always the likeliest byte")
      ->check(FiniteFrom(0))
      ->capture_default_str();
}

// A name of another kind is more likely that of a file to be kept, such as the
// data of a model.
absl::Status CheckSuffix(std::string_view flag, const std::string& path,
                         std::string_view suffix) {
  if (path.empty() || path.ends_with(suffix)) return absl::OkStatus();
  return Invalid("{} {}: the file's name should end in {}", flag, path, suffix);
}

// Returns whether `path` is a file that is read: `input`, or one of the folder
// of a training.
bool IsOf(const std::filesystem::path& path, const std::string& input) {
  std::error_code none;
  if (std::filesystem::equivalent(path, input, none)) return true;
  auto folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!IsFolder(input) || !std::filesystem::equivalent(folder, input, none)) {
    return false;
  }
  auto suffix = path.extension();
  return suffix == ".asyra" || suffix == ".safetensors" ||
         path.filename() == "training.json";
}

// A model's own file may be replaced, which --export-onnx is for.
absl::Status CheckKeepsInputs(const TrainSettings& flags) {
  std::vector<std::string> inputs = flags.data;
  inputs.insert(inputs.end(), flags.evaluate_data.begin(),
                flags.evaluate_data.end());
  if (IsTrainingFolder(flags.compile.model))
    inputs.push_back(flags.compile.model);
  for (auto [flag, path] :
       {std::pair{"--export", &flags.export_to},
        std::pair{"--export-onnx", &flags.export_onnx},
        std::pair{"--log", &flags.log}, std::pair{"--csv", &flags.csv},
        std::pair{"--html", &flags.html},
        std::pair{"--profile", &flags.profile}}) {
    for (const std::string& input : inputs) {
      if (path->empty() || !IsOf(*path, input)) continue;
      return Invalid("{} {}: the run reads it", flag, *path);
    }
  }
  if (IsThere(flags.export_hf + "/training.json")) {
    return Invalid("--export-hf {}: it is the folder of a training",
                   flags.export_hf);
  }
  return absl::OkStatus();
}

absl::Status CheckSteps(const TrainSettings& flags) {
  if (!flags.steps.has_value()) {
    return Invalid("there is no --steps: give how many, as --steps 1000");
  }
  if (*flags.steps < 1) {
    return Invalid("--steps is {}, it must be at least 1", *flags.steps);
  }
  if (!flags.rate.has_value()) {
    return Invalid(
        "there is no --rate: give the largest learning rate, as --rate 3e-4");
  }
  if (!(*flags.rate > 0) || !std::isfinite(*flags.rate)) {
    return Invalid("--rate is {}, it must be finite and above 0", *flags.rate);
  }
  if (flags.warmup > *flags.steps) {
    return Invalid("--warmup is {}, --steps {}", flags.warmup, *flags.steps);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Platform>> PlatformOf(
    const TrainSettings& flags) {
  if (flags.device == "cpu") {
    return WithTuning(CreateCpuPlatform(), flags.session);
  }
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Platform> platform,
                         CreateCudaPlatform({.timeout_s = flags.timeout_s}));
  return WithTuning(std::move(platform), flags.session);
}

double RateAt(const TrainSettings& flags, int64_t step) {
  int64_t steps = *flags.steps;
  int64_t warmup =
      flags.warmup >= 0 ? flags.warmup : std::min<int64_t>(steps / 10, 100);
  if (step < warmup) {
    return *flags.rate * static_cast<double>(step + 1) /
           static_cast<double>(warmup);
  }
  double part = static_cast<double>(step - warmup) /
                static_cast<double>(std::max<int64_t>(1, steps - warmup));
  return *flags.rate *
         (flags.final + (1 - flags.final) * 0.5 * (1 + std::cos(M_PI * part)));
}

absl::Status CheckSettings(const TrainSettings& flags) {
  std::vector<std::string_view> modes;
  if (!flags.data.empty()) modes.push_back("--data");
  if (!flags.check.empty()) modes.push_back("--check");
  if (flags.sample.count > 0) modes.push_back("--sample");
  if (modes.empty()) {
    return Invalid("one of --data, --check and --sample is needed");
  }
  if (modes.size() > 1) {
    return Invalid(
        "{} are given: one of --data, --check and --sample at a time",
        fmt::join(modes, " and "));
  }
  if (!flags.check.empty() && flags.train.accumulate > 1) {
    return Invalid("--check replays steps of one batch, --accumulate is {}",
                   flags.train.accumulate);
  }
  if (flags.sample.count > 0 && flags.checkpoint.empty()) {
    return Invalid("--sample is given, and there is no --checkpoint");
  }
  ASYRA_RETURN_IF_ERROR(CheckGivenFlags(flags));
  if (flags.data.empty()) return absl::OkStatus();
  bool onnx = std::filesystem::path(flags.compile.model).extension() == ".onnx";
  bool folder = IsTrainingFolder(flags.compile.model);
  if (!flags.export_hf.empty() && !folder &&
      HuggingFaceConfig(flags.compile.model).empty()) {
    return Invalid("--export-hf: {} has no config.json", flags.compile.model);
  }
  if (!flags.export_onnx.empty() && !onnx && !folder) {
    return Invalid("--export-onnx: {} is no .onnx file", flags.compile.model);
  }
  ASYRA_RETURN_IF_ERROR(
      CheckSuffix("--export", flags.export_to, ".safetensors"));
  ASYRA_RETURN_IF_ERROR(
      CheckSuffix("--export-onnx", flags.export_onnx, ".onnx"));
  ASYRA_RETURN_IF_ERROR(CheckKeepsInputs(flags));
  ASYRA_RETURN_IF_ERROR(CheckSteps(flags));
  if (flags.save_every > 0 && flags.checkpoint.empty()) {
    return Invalid("--save-every is {}, and there is no --checkpoint",
                   flags.save_every);
  }
  if (!flags.evaluate_data.empty() && flags.evaluate_every == 0) {
    return Invalid("--evaluate-data is given, and --evaluate-every is not");
  }
  return absl::OkStatus();
}

void AddSettings(CLI::App& app, TrainSettings* flags) {
  AddDataFlags(app, flags);
  app.add_option("--steps", flags->steps,
                 "how many, with those before the checkpoint that the run goes "
                 "on from");
  app.add_option("--rate", flags->rate, "the largest learning rate");
  app.add_option(
         "--warmup", flags->warmup,
         "steps in which the rate rises to it: a tenth of the steps, at "
         "most 100, unless given")
      ->check(FiniteFrom(0));
  app.add_option("--final", flags->final,
                 "the part of it that is left at the end of the cosine")
      ->check(Within(0, 1))
      ->capture_default_str();
  app.add_option("--seed", flags->seed,
                 "of the random values that weights without data begin with, "
                 "and of the order of the data")
      ->capture_default_str();
  app.add_flag("--random-weights", flags->random_weights,
               "all weights that are trained begin with random values, also "
               "those that the model has data for");
  app.add_flag("--skip-not-finite", flags->skip_not_finite,
               "goes on after a step whose loss or gradients are not finite; "
               "such a step changes nothing either way");
  app.add_flag("--check-finite", flags->check_finite,
               "names the op of the first NaN or infinity; slow");
  app.add_option("--device", flags->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  AddRankFlags(app, &flags->communicator, &flags->secret_file);
  app.add_option(
         "--gate", flags->gate,
         "measured: runs the step as it is scheduled and as it was before some "
         "times in turn, and trains with the faster one, which is remembered "
         "for this machine; again: measures what is remembered too")
      ->check(CLI::IsMember({kGateOff, kGateMeasured, kGateAgain}))
      ->capture_default_str();
  AddTuningFlags(app, &flags->tuning);
  app.add_flag("--dry-run", flags->dry_run,
               "says what the run would need and how fast it would be, and "
               "ends");
  AddOutputFlags(app, flags);
  AddSampleFlags(app, &flags->sample);
  app.add_option("--check", flags->check,
                 "FILE.safetensors of a recorded run, which is replayed, or a "
                 "folder with test_data_set_0 and gradients.safetensors: "
                 "compares, and fails beyond --rtol");
  app.add_option("--rtol", flags->rtol, "largest relative error of --check")
      ->check(FiniteFrom(0))
      ->capture_default_str();
  app.add_option("--timeout", flags->timeout_s,
                 "seconds after which a rank that is waited for is lost")
      ->check(FiniteAbove(0))
      ->capture_default_str();
}

bool IsTrainingFolder(const std::string& model) {
  return IsFolder(model) && HuggingFaceConfig(model).empty();
}

}  // namespace asyra
