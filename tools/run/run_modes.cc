#include "tools/run/run_modes.h"

#include <string_view>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Flags of ranks, steps and their times, which the interpreter does not have.
constexpr std::string_view kOfDevices[] = {
    "--communicator", "--secret",
    "--repeat",       "--profile",
    "--timeout",      "--inject-comm-us",
    "--check-finite", "--check-deterministic",
    "--debug-memory", "--graphs"};
// Compiler's flags that a program which runs as it is reads too, or refuses
// with a reason of its own.
constexpr std::string_view kOfPrograms[] = {"--ranks", "--mesh", "--dp",
                                            "--tp",    "--sp",   "--ep",
                                            "--dim",   "--data", "--weights"};
constexpr std::string_view kOfPredictions[] = {"--machine", "--set", "--nodes",
                                               "--graph", "--ranks-as"};

// Why a flag that the mode takes changes nothing beside the others; "" if it
// does.
std::string_view WhyIdle(const RunMode& mode, std::string_view flag) {
  if (flag == "--rtol" || flag == "--atol") {
    return mode.checks ? "" : "without --check";
  }
  // A check has no random inputs.
  if (flag == "--seed") return mode.checks ? "with --check" : "";
  if (flag == "--random-weights") {
    return mode.is_program
               ? ""
               : "on a model, whose weights without data are always random";
  }
  if (flag == "--check-deterministic") {
    return mode.repeats ? "" : "with --repeat 1";
  }
  if (flag == "--inject-comm-us") return mode.one_device ? "on one device" : "";
  if (flag == "--secret" && mode.communicator == "local") {
    return "with --communicator local";
  }
  if (flag == "--secret" && mode.communicator == "mpi") {
    return "with --communicator mpi";
  }
  return "";
}

bool IsOneOf(std::string_view flag, absl::Span<const std::string_view> flags) {
  return absl::c_linear_search(flags, flag);
}

}  // namespace

absl::Status CheckRunFlags(const RunMode& mode,
                           const std::vector<std::string>& given,
                           const std::vector<std::string>& compiling) {
  for (const std::string& flag : given) {
    if (mode.device == "interpreter" && IsOneOf(flag, kOfDevices)) {
      return Invalid("{} has no effect on the interpreter", flag);
    }
    if (mode.device == "cpu" && flag == "--graphs") {
      return Invalid("--graphs and --no-graphs have no effect on cpus");
    }
    std::string_view why = WhyIdle(mode, flag);
    if (!why.empty()) return Invalid("{} has no effect {}", flag, why);
  }
  if (!mode.as_it_is) return absl::OkStatus();
  for (const std::string& flag : compiling) {
    bool is_read = IsOneOf(flag, kOfPrograms) ||
                   (mode.predicts && IsOneOf(flag, kOfPredictions));
    if (is_read) continue;
    return Invalid(
        "{} has no effect: a program file runs as it is, without a mesh or "
        "--passes to compile it for{}",
        flag,
        IsOneOf(flag, kOfPredictions) ? ", and no --against with --machine"
                                      : "");
  }
  return absl::OkStatus();
}

}  // namespace asyra
