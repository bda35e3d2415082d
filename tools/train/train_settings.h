// The settings of asyra-train.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "executor/run.h"
#include "executor/train/token_files.h"
#include "tools/compile.h"
#include "tools/run/tuning_session.h"
#include "tools/train/sample_text.h"

namespace asyra {

struct TrainSettings {
  CompileFlags compile;
  TrainOptions train;
  // Data.
  std::vector<std::string> data, evaluate_data;
  TokenForm tokens = TokenForm::kAuto;
  bool shuffle = true;
  std::optional<int64_t> document_end;
  bool restart_data = false;  // not where the checkpoint was
  // The run.
  std::optional<int64_t> steps;  // with --data there are steps and a rate
  std::optional<double> rate;
  int64_t warmup = -1, seed = 1;
  double final = 0.1, timeout_s = 60;
  bool random_weights = false, check_finite = false, skip_not_finite = false;
  int64_t evaluate_every = 0, evaluate_batches = 10;
  std::string device = "cpu", communicator = "auto", secret_file;
  bool dry_run = false;
  std::string gate = "off";  // as asyra-run has it (run_gate.h)
  TuningFlags tuning;
  std::shared_ptr<TuningSession> session = nullptr;  // of `tuning`
  // The output.
  std::string checkpoint, export_to, export_onnx, export_hf;
  std::string log, csv, html, profile;
  int64_t save_every = 0, keep = 3;
  int64_t every = -1;  // steps between two lines; -1: by where they go
  // Comparing with recorded runs.
  std::string check;
  double rtol = 2e-4;
  // Text of the model at the newest checkpoint, instead of training.
  SampleOptions sample = {.count = 0};
  // Flags that were given, and those that only matter when a model is compiled.
  std::vector<std::string> given, of_compiling;
};

// Adds the flags of the run; those of compiling and of the optimizer are
// AddCompileFlags and AddTrainFlags.
void AddSettings(CLI::App& app, TrainSettings* settings);

// Errors, each of one flag or two that do not go together, also where one would
// have no effect (train_modes.h). Files that are
// written at the end must be possible to write.
absl::Status CheckSettings(const TrainSettings& settings);

absl::StatusOr<std::unique_ptr<Platform>> PlatformOf(
    const TrainSettings& settings);

// The learning rate of a step, from 0: linear over the first `warmup` steps,
// then a cosine down to a part of the peak.
double RateAt(const TrainSettings& settings, int64_t step);

// Returns whether a model is the folder of a compiled training
// (training_folder.h), and not that of a config.json.
bool IsTrainingFolder(const std::string& model);

}  // namespace asyra
