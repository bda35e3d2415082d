// Training from C.
#include <algorithm>
#include <cstring>

#include "c/handles.h"
#include "executor/comm/choices.h"
#include "executor/train/step_inputs.h"
#include "ir/support/status.h"

namespace asyra::c {
namespace {

// A caller with an older header knows fewer fields; the others are zero.
absl::StatusOr<asyra_trainer_options> Read(
    const asyra_trainer_options* options) {
  asyra_trainer_options given = {};
  given.seed = 1;
  if (options == nullptr) return given;
  ASYRA_RETURN_IF_ERROR(CheckSize("asyra_trainer_options", options->size));
  std::memcpy(&given, options, std::min(options->size, sizeof(given)));
  if (given.keep >= 0) return given;
  return Invalid("asyra_trainer_options: keep is {}, it should be at least 0",
                 given.keep);
}

absl::StatusOr<std::unique_ptr<asyra_trainer>> Create(
    asyra_rank& rank, const char* folder,
    const asyra_trainer_options* options) {
  ASYRA_ASSIGN_OR_RETURN(asyra_trainer_options given, Read(options));
  auto made = std::make_unique<asyra_trainer>();
  made->rank = asyra_rank_number(&rank);
  made->world = rank.world;
  made->seed = given.seed;
  if (given.document_end != nullptr) made->document_end = *given.document_end;
  ASYRA_ASSIGN_OR_RETURN(made->trainer, Trainer::Load(folder));
  TrainerOptions chosen;
  if (given.resume_from != nullptr) chosen.resume_from = given.resume_from;
  chosen.checkpoints.keep = given.keep;
  chosen.seed = given.seed;
  chosen.random_weights = given.random_weights != 0;
  chosen.check_finite = given.check_finite != 0;
  if (given.skip_not_finite != 0) chosen.not_finite = NotFinite::kSkip;
  chosen.sharing = rank.sharing;
  ASYRA_RETURN_IF_ERROR(
      made->trainer->Prepare(*rank.device, rank.world, chosen));
  made->inputs = made->trainer->inputs();
  made->evaluate_inputs = made->trainer->evaluate_inputs();
  return made;
}

absl::Status Step(asyra_trainer& trainer, const void* const* batch,
                  double rate) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> tensors,
                         TensorsOf(trainer.inputs, batch));
  return trainer.trainer->Step(tensors, {.rate = rate});
}

absl::Status Accumulate(asyra_trainer& trainer, const void* const* batch) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> tensors,
                         TensorsOf(trainer.inputs, batch));
  return trainer.trainer->Accumulate(tensors);
}

absl::Status OpenTokens(asyra_trainer& trainer, const char* const* files,
                        int32_t count) {
  constexpr int32_t kMostFiles = 65536;
  if (count < 1 || count > kMostFiles) {
    return Invalid("count is {}, it should be 1 to {}", count, kMostFiles);
  }
  std::vector<std::string> names;
  for (int32_t i = 0; i < count; ++i) {
    if (files[i] == nullptr) return Invalid("files[{}] is NULL", i);
    names.emplace_back(files[i]);
  }
  ASYRA_ASSIGN_OR_RETURN(TokenFiles opened, TokenFiles::Open(names));
  if (trainer.world != nullptr) {
    ASYRA_ASSIGN_OR_RETURN(std::string identity, opened.Identity());
    std::string end = trainer.document_end.has_value()
                          ? fmt::format("{}", *trainer.document_end)
                          : "none";
    ASYRA_RETURN_IF_ERROR(CheckSameChoices(
        *trainer.world, {{"the tokens", identity}, {"document_end", end}}));
  }
  ASYRA_ASSIGN_OR_RETURN(
      trainer.tokens,
      TokenBatches::Open(std::make_shared<const TokenFiles>(std::move(opened)),
                         trainer.trainer->programs().step, trainer.rank,
                         {.shuffle = true,
                          .seed = trainer.seed,
                          .document_end = trainer.document_end}));
  return trainer.tokens->GoOnFrom(trainer.trainer->data_place());
}

absl::Status StepOnTokens(asyra_trainer& trainer, double rate) {
  if (trainer.tokens == nullptr) {
    return Invalid("asyra_trainer_open_tokens was not called");
  }
  // Before any batch is taken.
  ASYRA_RETURN_IF_ERROR(CheckRate(trainer.trainer->programs().step, rate));
  for (int64_t i = 1; i < trainer.trainer->batches_per_step(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, trainer.tokens->Next());
    ASYRA_RETURN_IF_ERROR(trainer.trainer->Accumulate(batch));
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, trainer.tokens->Next());
  return trainer.trainer->Step(batch, {.rate = rate});
}

absl::Status Metrics(Trainer& trainer, asyra_metrics* to) {
  ASYRA_ASSIGN_OR_RETURN(TrainMetrics metrics, trainer.Metrics());
  return FillStruct<asyra_metrics>("asyra_metrics",
                                   {.step = metrics.step,
                                    .loss = metrics.loss,
                                    .norm = metrics.norm,
                                    .seconds = metrics.seconds,
                                    .tokens_per_s = metrics.tokens_per_s,
                                    .mfu = metrics.mfu,
                                    .skipped = metrics.skipped ? 1 : 0},
                                   to);
}

absl::Status Evaluate(asyra_trainer& trainer, const void* const* batch,
                      double* loss) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> tensors,
                         TensorsOf(trainer.evaluate_inputs, batch));
  ASYRA_ASSIGN_OR_RETURN(Trainer::LossSum sum,
                         trainer.trainer->Evaluate(tensors));
  if (sum.count == 0) return Invalid("no label of the batch counts");
  *loss = sum.mean();
  return absl::OkStatus();
}

absl::Status Save(asyra_trainer& trainer, const char* directory) {
  if (trainer.tokens != nullptr) {
    trainer.trainer->set_data_place(trainer.tokens->place());
  }
  return trainer.trainer->Save(directory);
}

absl::Status Finish(Trainer& trainer) {
  ASYRA_RETURN_IF_ERROR(trainer.Finish());
  return trainer.FinishSave();
}

}  // namespace
}  // namespace asyra::c

using asyra::c::Guarded;
using asyra::c::Make;

asyra_status asyra_trainer_create(asyra_rank* rank, const char* folder,
                                  const asyra_trainer_options* options,
                                  asyra_trainer** trainer) {
  return Make({{"rank", rank}, {"folder", folder}, {"trainer", trainer}},
              trainer,
              [&] { return asyra::c::Create(*rank, folder, options); });
}

asyra_status asyra_trainer_input(const asyra_trainer* trainer, int32_t index,
                                 asyra_tensor_info* info) {
  return Guarded({{"trainer", trainer}, {"info", info}}, [&] {
    return asyra::c::FillInfo(trainer->inputs, index, info);
  });
}

asyra_status asyra_trainer_step(asyra_trainer* trainer,
                                const void* const* batch, double rate) {
  return Guarded({{"trainer", trainer}},
                 [&] { return asyra::c::Step(*trainer, batch, rate); });
}

asyra_status asyra_trainer_accumulate(asyra_trainer* trainer,
                                      const void* const* batch) {
  return Guarded({{"trainer", trainer}},
                 [&] { return asyra::c::Accumulate(*trainer, batch); });
}

asyra_status asyra_trainer_open_tokens(asyra_trainer* trainer,
                                       const char* const* files,
                                       int32_t count) {
  return Guarded({{"trainer", trainer}, {"files", files}},
                 [&] { return asyra::c::OpenTokens(*trainer, files, count); });
}

asyra_status asyra_trainer_step_on_tokens(asyra_trainer* trainer, double rate) {
  return Guarded({{"trainer", trainer}},
                 [&] { return asyra::c::StepOnTokens(*trainer, rate); });
}

int64_t asyra_trainer_steps(const asyra_trainer* trainer) {
  if (!asyra::c::IsGiven("trainer", trainer)) return -1;
  return trainer->trainer->step();
}

asyra_status asyra_trainer_metrics(asyra_trainer* trainer,
                                   asyra_metrics* metrics) {
  return Guarded({{"trainer", trainer}, {"metrics", metrics}},
                 [&] { return asyra::c::Metrics(*trainer->trainer, metrics); });
}

asyra_status asyra_trainer_evaluate(asyra_trainer* trainer,
                                    const void* const* batch, double* loss) {
  return Guarded({{"trainer", trainer}, {"loss", loss}},
                 [&] { return asyra::c::Evaluate(*trainer, batch, loss); });
}

asyra_status asyra_trainer_save(asyra_trainer* trainer, const char* directory) {
  return Guarded({{"trainer", trainer}, {"directory", directory}},
                 [&] { return asyra::c::Save(*trainer, directory); });
}

asyra_status asyra_trainer_finish(asyra_trainer* trainer) {
  return Guarded({{"trainer", trainer}},
                 [&] { return asyra::c::Finish(*trainer->trainer); });
}

asyra_status asyra_trainer_export(asyra_trainer* trainer, const char* path) {
  return Guarded({{"trainer", trainer}, {"path", path}},
                 [&] { return trainer->trainer->Export(path); });
}

void asyra_trainer_free(asyra_trainer* trainer) { delete trainer; }
