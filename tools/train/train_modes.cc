#include "tools/train/train_modes.h"

#include <string>
#include <string_view>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_split.h"
#include "ir/support/path.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

enum Mode : unsigned {
  kTrain = 1,   // --data, also with --dry-run
  kReplay = 2,  // --check of a recorded run
  kFolder = 4,  // --check of a folder with gradients
  kSample = 8,
};
constexpr unsigned kCheck = kReplay | kFolder;

// Flags, and the modes that read them. All modes read those that are not here.
struct Use {
  std::string_view flags;
  unsigned modes;
};
constexpr Use kUses[] = {
    {"--tokens --document-end --shuffle --restart-data --evaluate-every "
     "--evaluate-data "
     "--evaluate-batches --steps --rate --warmup --final --random-weights "
     "--skip-not-finite --check-finite --communicator --secret --gate "
     "--dry-run --save-every --keep --export --export-onnx --export-hf "
     "--profile "
     "--save-tuning",
     kTrain},
    // A recorded run says them, gradients have none.
    {"--optimizer --beta1 --beta2 --eps --momentum --decay --decay-of --clip",
     kTrain},
    {"--every --log --csv --html", kTrain | kReplay},
    {"--checkpoint", kTrain | kSample},
    {"--seed", kTrain | kFolder | kSample},
    {"--rtol", kCheck},
    {"--prompt --temperature", kSample},
    // A sample takes one cpu, and compiles nothing for it.
    {"--device --timeout --tuning", kTrain | kCheck},
    {"--dp --tp --sp --ep --mesh --ranks --shard --propagate --tp-strategy "
     "--ep-strategy --machine --ranks-as --nodes --graph --set --tiles "
     "--tile-dim --scheduler --bucket --overlap --no-overlap --join --phases "
     "--fuse "
     "--epilogues --reduce-scatter --over-hosts --search-steps --memory-gib "
     "--capacity --passes --simulate-each",
     kTrain | kCheck},
    {"--accumulate --zero --whole-params --recompute --loss-chunks --freeze "
     "--loss --balance-loss --router-z-loss",
     kTrain | kCheck},
};

// They say how steps are made, which --dry-run makes none of.
constexpr std::string_view kOfSteps[] = {
    "--shuffle",      "--restart-data", "--random-weights", "--skip-not-finite",
    "--check-finite", "--communicator", "--secret",         "--timeout",
    "--gate",         "--save-every",   "--keep",           "--export",
    "--export-onnx",  "--export-hf",    "--profile",        "--every",
    "--log",          "--csv",          "--html",           "--save-tuning"};

Mode ModeOf(const TrainSettings& settings) {
  if (settings.sample.count > 0) return kSample;
  if (settings.check.empty()) return kTrain;
  return IsFolder(settings.check) ? kFolder : kReplay;
}

// In which mode a flag for `modes` does nothing: "without --check".
std::string_view Where(Mode mode, unsigned modes) {
  switch (mode) {
    case kTrain:
      return (modes & kSample) != 0 ? "without --sample" : "without --check";
    case kReplay:
      return "with --check of a recorded run";
    case kFolder:
      return "with --check of a folder";
    case kSample:
      return "with --sample";
  }
  return "here";
}

}  // namespace

absl::Status CheckGivenFlags(const TrainSettings& settings) {
  auto given = [&](std::string_view flag) {
    return absl::c_linear_search(settings.given, flag);
  };
  Mode mode = ModeOf(settings);
  for (const Use& use : kUses) {
    if ((use.modes & mode) != 0) continue;
    std::vector<std::string> flags =
        absl::StrSplit(std::string(use.flags), ' ');
    for (const std::string& flag : flags) {
      if (!given(flag)) continue;
      return Invalid("{} has no effect {}", flag, Where(mode, use.modes));
    }
  }
  for (std::string_view flag : {"--restart-data", "--keep"}) {
    if (!given(flag) || !settings.checkpoint.empty()) continue;
    return Invalid("{} has no effect without --checkpoint", flag);
  }
  if (given("--evaluate-batches") && settings.evaluate_every == 0) {
    return Invalid("--evaluate-batches has no effect without --evaluate-every");
  }
  bool other =
      settings.communicator == "local" || settings.communicator == "mpi";
  if (given("--secret") && other) {
    return Invalid("--secret has no effect with --communicator {}",
                   settings.communicator);
  }
  for (std::string_view flag : kOfSteps) {
    if (!given(flag) || !settings.dry_run) continue;
    return Invalid("{} has no effect with --dry-run", flag);
  }
  return absl::OkStatus();
}

}  // namespace asyra
