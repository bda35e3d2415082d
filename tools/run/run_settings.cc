#include "tools/run/run_settings.h"

#include <cmath>

#include "ir/support/status.h"
#include "tools/connect_ranks.h"
#include "tools/idle_flags.h"
#include "tools/output_file.h"
#include "tools/run/number_check.h"
#include "tools/run/run_modes.h"

namespace asyra {
namespace {

void AddRunFlags(CLI::App& app, RunSettings* flags) {
  RunOptions& run = flags->run;
  app.add_option("--device", flags->device,
                 "cpu and cuda: kernels and streams, a GPU for each rank; "
                 "interpreter: the ops' references, all ranks in lockstep")
      ->check(CLI::IsMember({"cpu", "cuda", "interpreter"}))
      ->capture_default_str();
  AddRankFlags(app, &flags->communicator, &flags->secret_file);
  app.add_option(
         "--repeat", run.repeat,
         "steps, all from the same inputs, states and params: those of a "
         "training step are put back in between")
      ->capture_default_str();
  app.add_option("--profile", flags->profile,
                 "writes a trace of rank 0's last step, for Perfetto")
      ->check(OutputFile());
  app.add_option(
         "--timeout", run.timeout_s,
         "a rank that keeps others waiting for so many seconds counts as lost")
      ->capture_default_str();
  app.add_option("--inject-comm-us", run.inject_comm_us,
                 "every collective takes at least that long, as on slow links")
      ->check(FiniteFrom(0));
  app.add_flag("--check-finite", run.executor.check_finite,
               "fails at the first op that produces a NaN or an infinity");
  app.add_flag("--check-deterministic", run.check_deterministic,
               "fails when two of the steps differ in a byte");
  app.add_flag("--debug-memory", run.executor.debug_memory,
               "poisons, guards and checks every buffer as it is used");
  app.add_flag("--graphs,!--no-graphs", flags->graphs,
               "a step on GPUs is one captured graph, not op by op")
      ->capture_default_str();
  app.add_flag("--json", flags->json, "prints the result as JSON");
}

// Adds flags of what is compared, run in turn and drawn.
void AddMoreFlags(CLI::App& app, RunSettings* flags) {
  CLI::Option* output =
      app.add_option("--output", flags->output,
                     "folder for the outputs, each as a whole in a file of its "
                     "own, OUTPUT.npy; made if it is not there")
          ->check(OutputFolder());
  app.add_option("--output-form", flags->output_form,
                 "npy (bf16 becomes f32, which holds its values), pb "
                 "(TensorProto), or safetensors")
      ->check(CLI::IsMember({kNpy, kPb, kSafetensors}))
      ->needs(output)
      ->capture_default_str();
  app.add_option("--rtol", flags->rtol,
                 "relative tolerance; by the output's element type: 1e-4, "
                 "f16 2e-3, bf16 2e-2")
      ->check(FiniteFrom(0));
  app.add_option("--atol", flags->atol,
                 "absolute tolerance; 1e-5, f16 2e-3, bf16 2e-2")
      ->check(FiniteFrom(0));
  app.add_flag("--compare-single", flags->compare_single,
               "also runs the program unsharded on one device and compares: "
               "errors up to 1e-5, f16 2e-3, bf16 2e-2 of an output's largest "
               "magnitude pass");
  app.add_option(
      "--against", flags->against,
      "programs that take turns with this one, step by step: "
      "'unscheduled', the same before scheduling, or .asyra files of "
      "the same inputs; with --machine also the predicted times");
  app.add_option(
         "--gate", flags->gate,
         "measured: runs the program, the same before scheduling and those of "
         "--against some steps in turn, and goes on with the fastest, which is "
         "remembered for this machine; again: measures what is remembered too")
      ->check(CLI::IsMember({kGateOff, kGateMeasured, kGateAgain}))
      ->capture_default_str();
  AddTuningFlags(app, &flags->tuning);
  app.add_option("--seed", flags->seed,
                 "of random inputs and weights: the same values on any mesh")
      ->capture_default_str();
  app.add_flag("--random-weights", flags->random_weights,
               "random values for weights that a program file has no data for, "
               "those of init.asyra where that is beside a training step; "
               "weights of a model without data are always random");
}

}  // namespace

std::vector<CLI::Option*> AddRunSettings(CLI::App& app, RunSettings* flags) {
  AddModelFlag(app, &flags->compile);
  AddCompileFlags(app, &flags->compile);
  std::vector<CLI::Option*> compiling = app.get_options();
  AddRunFlags(app, flags);
  AddInputFlags(app, &flags->input);
  AddMoreFlags(app, flags);
  return compiling;
}

absl::StatusOr<bool> RunsAsItIs(const CompileFlags& flags) {
  ASYRA_ASSIGN_OR_RETURN(Mesh mesh, MeshOf(flags));
  return IsProgramFile(flags) && mesh.num_axes() == 0 && flags.passes.empty();
}

absl::Status CheckTimeout(const RunSettings& flags) {
  if (flags.run.timeout_s > 0 && std::isfinite(flags.run.timeout_s)) {
    return absl::OkStatus();
  }
  return Invalid("--timeout is {}, it must be finite and above 0",
                 flags.run.timeout_s);
}

absl::Status CheckSettings(const RunSettings& flags) {
  if (flags.run.repeat < 1) {
    return Invalid("--repeat is {}, it must be at least 1", flags.run.repeat);
  }
  ASYRA_ASSIGN_OR_RETURN(bool as_it_is, RunsAsItIs(flags.compile));
  ASYRA_ASSIGN_OR_RETURN(Mesh mesh, MeshOf(flags.compile));
  ASYRA_RETURN_IF_ERROR(
      CheckRunFlags({.device = flags.device,
                     .as_it_is = as_it_is,
                     .is_program = IsProgramFile(flags.compile),
                     .one_device = !as_it_is && mesh.num_devices() == 1,
                     .communicator = flags.communicator,
                     .repeats = flags.run.repeat > 1,
                     .checks = !flags.input.check.empty(),
                     .predicts = flags.predict && !flags.against.empty()},
                    flags.given, flags.of_compiling));
  if (!as_it_is) {
    ASYRA_RETURN_IF_ERROR(CheckNoneIdle(flags.of_compiling, {flags.compile}));
  }
  if (flags.device == "interpreter") {
    if (!flags.against.empty()) {
      return Invalid("--against compares times, the interpreter has none");
    }
    if (flags.gate != kGateOff) {
      return Invalid("--gate compares times, the interpreter has none");
    }
    if (!flags.tuning.load.empty() || !flags.tuning.save.empty()) {
      return Invalid(
          "--tuning and --save-tuning are of devices, the "
          "interpreter is none");
    }
  }
  return absl::OkStatus();
}

}  // namespace asyra
