#include "tools/train_settings.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "CLI/CLI.hpp"
#include "executor/cpu/run_on_cpu.h"
#include "executor/cuda/device/cuda_platform.h"
#include "ir/support/status.h"

namespace asyra {

absl::StatusOr<std::unique_ptr<Platform>> PlatformOf(
    const TrainSettings& flags) {
  if (flags.device == "cpu") return CreateCpuPlatform();
  return CreateCudaPlatform({.timeout_s = flags.timeout_s});
}

double RateAt(const TrainSettings& flags, int64_t warmup, int64_t step) {
  if (step < warmup) {
    return flags.rate * static_cast<double>(step + 1) /
           static_cast<double>(warmup);
  }
  double part = static_cast<double>(step - warmup) /
                static_cast<double>(std::max<int64_t>(1, flags.steps - warmup));
  return flags.rate *
         (flags.final + (1 - flags.final) * 0.5 * (1 + std::cos(M_PI * part)));
}

absl::Status CheckSettings(const TrainSettings& flags) {
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

void AddSettings(CLI::App& app, TrainSettings* flags) {
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

}  // namespace asyra
