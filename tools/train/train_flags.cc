#include "tools/train/train_flags.h"

#include "CLI/CLI.hpp"
#include "passes/train/update_numbers.h"
#include "tools/run/number_check.h"

namespace asyra {
namespace {

constexpr int64_t kMostBatches = 1 << 20;

NumberCheck RangeOf(const UpdateNumber& number) {
  return NumberThat([number](double value) { return number.IsIn(value); },
                    number.range());
}

// Refuses flags that the chosen optimizer does not read.
void CheckOptimizerFlags(const CLI::App& app, const TrainOptions& options) {
  auto refuse = [](const std::string& flag, const std::string& why) {
    throw CLI::ValidationError(flag, "it has no effect with " + why);
  };
  for (const UpdateNumber& number : UpdateNumbers()) {
    std::string flag = "--" + std::string(number.name);
    bool is_read =
        number.optimizer.empty() || number.optimizer == options.optimizer;
    if (app.count(flag) > 0 && !is_read) {
      refuse(flag, "--optimizer " + options.optimizer);
    }
  }
  if (app.count("--decay-of") > 0 && options.decay == 0) {
    refuse("--decay-of", "--decay 0");
  }
}

}  // namespace

void AddTrainFlags(CLI::App& app, TrainOptions* options,
                   const std::string& train_names) {
  const std::string group = "Training";
  auto add = [&](const char* name, auto* value, const char* text) {
    return app.add_option(name, *value, text)
        ->capture_default_str()
        ->group(group);
  };
  add("--optimizer", &options->optimizer, "adamw or sgd")
      ->check(CLI::IsMember({"adamw", "sgd"}));
  auto add_number = [&](const char* name, double* value, const char* text) {
    add(name, value, text)->check(RangeOf(UpdateNumberOf(name + 2)));
  };
  add_number("--beta1", &options->beta1, "of adamw's mean of gradients");
  add_number("--beta2", &options->beta2, "of adamw's mean of their squares");
  add_number("--eps", &options->eps, "of adamw, beside the root of that");
  add_number("--momentum", &options->momentum, "of sgd");
  add_number("--decay", &options->decay,
             "weight decay, apart from the gradient");
  add("--decay-of", &options->decay_of,
      "what decays: matrices, or REGEX of names of weights");
  add_number("--clip", &options->clip,
             "largest norm of all gradients together; 0: any, and no update "
             "waits for other gradients than its own");
  add("--accumulate", &options->accumulate,
      "batches whose gradients make one update: all but the last are added up "
      "by a program of their own")
      ->check(CLI::Range(int64_t{1}, kMostBatches));
  add("--zero", &options->zero,
      "what dp and sp cut beside activations: 0 nothing, 1 the optimizer's "
      "states, 2 gradients too, 3 parameters too; auto: the fastest by "
      "simulation that fits")
      ->check(CLI::IsMember({"auto", "0", "1", "2", "3"}));
  app.add_flag_callback(
         "--whole-params", [options] { options->halves = false; },
         "keeps f32 params in one piece; else those that are read as bf16 are "
         "stored in halves, of which the upper one is read: no casts, no "
         "copies, the same losses")
      ->group(group);
  add("--recompute", &options->recompute,
      "what backward computes again instead of keeping it: auto, as much as "
      "the memory of a device needs; none; all; or NAME;NAME..., with * for a "
      "number: 'layer*.swiglu'");
  add("--loss-chunks", &options->loss_chunks,
      "in how many chunks of tokens the loss and its gradient run, so that the "
      "logits of all are never there at once; 0: as few as let the step fit")
      ->check(CLI::Range(0, 64));
  add("--freeze", &options->freeze,
      "REGEX: weights whose whole names match are not trained; all but some: "
      "'(?!lora_).*'");
  add(train_names.c_str(), &options->train,
      "REGEX: weights whose whole names match are trained, though they look "
      "like constants of the model");
  add("--tie", &options->tie,
      "REGEX: weights whose whole names match are one parameter where their "
      "data is equal; table and head are without it");
  add("--untie", &options->untie,
      "REGEX: weights whose whole names match stay apart from others of equal "
      "data");
  add("--loss", &options->output,
      "the output that is the loss or the logits, where there are several");
  add("--balance-loss", &options->balance,
      "weight of a term of the loss that keeps experts equally busy: "
      "Hugging Face's router_aux_loss_coef, over all tokens; 0: none")
      ->check(CLI::Range(0.0, 1e6));
  add("--router-z-loss", &options->router_z,
      "weight of a term of the loss that keeps the routers' logits small: the "
      "mean of their squared log sums; 0: none")
      ->check(CLI::Range(0.0, 1e6));
  app.parse_complete_callback(
      [&app, options] { CheckOptimizerFlags(app, *options); });
}

void AddTrainFlag(CLI::App& app, const std::string& makes, bool* train,
                  TrainOptions* options) {
  CLI::Option* flag = app.add_flag("--train", *train, makes);
  AddTrainFlags(app, options);
  for (CLI::Option* option : app.get_options([](const CLI::Option* one) {
         return one->get_group() == "Training";
       })) {
    option->needs(flag);
  }
}

}  // namespace asyra
