// Trainers: runs that are interrupted, that change the mesh, and that fail.
#include "executor/trainer.h"

#include <barrier>
#include <cmath>
#include <map>
#include <mutex>
#include <random>

#include "gmock/gmock.h"
#include "ir/overlap.h"
#include "ir/printer.h"
#include "ir/training_names.h"
#include "ir/weights/weight_store.h"
#include "passes/pass_manager.h"
#include "tests/support/costs.h"
#include "tests/support/process_size.h"
#include "tests/support/sanitized.h"
#include "tests/train/small_training.h"

namespace asyra {
namespace {

using testing::HasSubstr;

const TrainingPrograms& Programs(const std::string& mesh) {
  static auto* all = new std::map<std::string, TrainingPrograms>;
  auto found = all->find(mesh);
  if (found == all->end()) {
    found = all->emplace(mesh, SmallTraining(mesh)).first;
  }
  return found->second;
}

// Trains up to step `last` and saves into `directory`, or goes on from there.
// Gives the losses by step.
std::map<int64_t, double> Train(const std::string& mesh, int64_t last,
                                const std::string& directory,
                                TrainerOptions options = {}) {
  std::map<int64_t, double> losses;
  std::mutex mutex;  // all ranks know all losses
  options.resume_from = directory;
  ASYRA_CHECK_OK(
      OnTrainers(Programs(mesh), options,
                 [&](Trainer& trainer, TokenBatches& data) -> absl::Status {
                   ASYRA_RETURN_IF_ERROR(StepsUpTo(last, trainer, data));
                   trainer.set_data_place(data.place());
                   ASYRA_RETURN_IF_ERROR(trainer.Save(directory));
                   ASYRA_RETURN_IF_ERROR(trainer.FinishSave());
                   std::lock_guard lock(mutex);
                   for (const TrainMetrics& one : trainer.TakeMetrics()) {
                     losses[one.step] = one.loss;
                   }
                   return absl::OkStatus();
                 }));
  return losses;
}

// With sanitizers, compiling for four ranks takes longer than all steps.
constexpr const char* kLargest = kSanitized ? "dp=2" : "dp=2,tp=2";

TEST(Resume, AtAnyStepIsBitEqual) {
  std::mt19937 random(7);
  const int64_t kLast = kSanitized ? 5 : 9;
  for (const char* mesh : {"", "dp=2", "dp=2,tp=2"}) {
    if (kSanitized && mesh != std::string_view(kLargest)) continue;
    ScratchFolder whole("whole"), parts("parts");
    std::map<int64_t, double> losses = Train(mesh, kLast, whole.path());
    ASSERT_EQ(losses.size(), static_cast<size_t>(kLast));
    EXPECT_LT(losses[kLast], losses[1]);
    auto stop = static_cast<int64_t>(1 + random() % (kLast - 1));
    std::map<int64_t, double> again = Train(mesh, stop, parts.path());
    again.merge(Train(mesh, kLast, parts.path()));
    EXPECT_EQ(again, losses) << mesh << " stopped after " << stop;
    ExpectSameTensors(Newest(whole.path()).tensors(),
                      Newest(parts.path()).tensors());
  }
}

// Train has waited: what the destructor completes is the same.
TEST(Resume, ACheckpointThatNobodyWaitsForIsComplete) {
  for (const char* mesh : {"", kLargest}) {
    ScratchFolder waited("waited"), left("left");
    Train(mesh, 2, waited.path());
    ASYRA_CHECK_OK(
        OnTrainers(Programs(mesh), {},
                   [&](Trainer& trainer, TokenBatches& data) -> absl::Status {
                     ASYRA_RETURN_IF_ERROR(StepsUpTo(2, trainer, data));
                     trainer.set_data_place(data.place());
                     return trainer.Save(left.path());
                   }));
    ExpectSameTensors(Newest(waited.path()).tensors(),
                      Newest(left.path()).tensors());
  }
}

// A file has the name of the folder: the last rename fails.
TEST(Resume, ACheckpointThatTheDestructorCannotCompleteIsSaid) {
  for (const char* mesh : {"", kLargest}) {
    ScratchFolder run("run");
    ASYRA_CHECK_OK(
        WriteFileAtomically(run.path() + "/step-00000000", {"a file"}));
    testing::internal::CaptureStderr();
    ASYRA_CHECK_OK(
        OnTrainers(Programs(mesh), {},
                   [&](Trainer& trainer, TokenBatches&) -> absl::Status {
                     return trainer.Save(run.path());
                   }));
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, testing::MatchesRegex(
                          "asyra: rank 0: a checkpoint in .*run.* is not "
                          "complete: .*step-00000000: Not a directory\n"));
  }
}

TEST(Save, ByOneRankAloneNamesTheCallAndTheOther) {
  ScratchFolder run("run");
  auto device = CreateCpuDevice({.threads_per_stream = 1});
  absl::Status said = RunLocalRanks(
      2, {.timeout_s = 2}, [&](Communicator& world) -> absl::Status {
        ASYRA_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(Programs("dp=2")));
        ASYRA_RETURN_IF_ERROR(trainer->Prepare(*device, &world, {}));
        return world.rank() == 0 ? trainer->Save(run.path()) : absl::OkStatus();
      });
  EXPECT_THAT(std::string(MessageOf(said)),
              HasSubstr("Save after step 0, which all ranks call: "
                        "nothing was heard from rank 1 within 2 s"));
}

// A loop that takes metrics as they come and then finishes sees all steps.
TEST(Metrics, OfTheLastStepAreKnownAfterFinish) {
  ASYRA_CHECK_OK(OnTrainers(
      Programs(""), {},
      [](Trainer& trainer, TokenBatches& data) -> absl::Status {
        std::vector<int64_t> steps;
        auto take = [&] {
          for (const TrainMetrics& one : trainer.TakeMetrics()) {
            steps.push_back(one.step);
          }
        };
        while (trainer.step() < 3) {
          ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data.Next());
          ASYRA_RETURN_IF_ERROR(trainer.Step(batch, {.rate = 0.01}));
          take();
        }
        ASYRA_RETURN_IF_ERROR(trainer.Finish());
        take();
        EXPECT_THAT(steps, testing::ElementsAre(1, 2, 3));
        return absl::OkStatus();
      }));
}

TEST(Resume, OnAnyMeshHasTheSameValues) {
  ScratchFolder run("run"), alone("alone");
  std::map<int64_t, double> losses = Train("", 8, alone.path());
  int64_t last = 0;
  for (const char* mesh : {kLargest, kSanitized ? "" : "tp=4", "", kLargest}) {
    if (last > 0) {
      // Nothing but loading and saving.
      ScratchFolder copy("copy");
      Checkpoint before = Newest(run.path());
      ASYRA_CHECK_OK(
          OnTrainers(Programs(mesh), {}, [&](Trainer& trainer, TokenBatches&) {
            ASYRA_RETURN_IF_ERROR(trainer.Restore(before.folder()));
            EXPECT_EQ(trainer.step(), before.info().step);
            ASYRA_RETURN_IF_ERROR(trainer.Save(copy.path()));
            return trainer.FinishSave();
          }));
      ExpectSameTensors(before.tensors(), Newest(copy.path()).tensors());
      EXPECT_EQ(Newest(copy.path()).info().extra, before.info().extra);
    }
    last += 2;
    for (auto [step, loss] : Train(mesh, last, run.path())) {
      EXPECT_NEAR(loss, losses[step], 1e-10) << mesh << " step " << step;
    }
  }
}

TEST(Resume, DataInAnotherOrderIsRefused) {
  ScratchFolder run("run");
  Train("", 2, run.path());
  auto device = CreateCpuDevice();
  auto trainer = ASYRA_VALUE(Trainer::Create(Programs("")));
  ASYRA_CHECK_OK(
      trainer->Prepare(*device, nullptr, {.resume_from = run.path()}));
  const DataPlace& place = trainer->data_place();
  EXPECT_GT(place.position, 0);
  auto go_on = [&](const TokenReaderOptions& options, DataPlace from) {
    auto data = ASYRA_VALUE(
        TokenBatches::Open(SmallText(), Programs("").step, 0, options));
    absl::Status status = data->GoOnFrom(from);
    EXPECT_EQ(data->place().position, status.ok() ? from.position : 0);
    return std::string(MessageOf(status));
  };
  EXPECT_EQ(go_on({.shuffle = true}, place), "");
  std::string all = place.order.substr(0, place.order.find(", "));
  EXPECT_THAT(all, testing::MatchesRegex("[0-9]+ windows of [0-9]+ tokens"));
  auto refusal = [&](const std::string& now) {
    return fmt::format(
        "the data of the run that this one goes on from was {}; it is {} now",
        place.order, now);
  };
  EXPECT_EQ(go_on({.shuffle = true, .seed = 7}, place),
            refusal(all + ", shuffled by seed 7"));
  EXPECT_EQ(go_on({}, place), refusal(all + ", not shuffled"));
  EXPECT_THAT(go_on({.shuffle = true, .windows = {2, 40}}, place),
              HasSubstr("it is 40 windows of"));
  // One of before there was an order.
  EXPECT_EQ(go_on({}, {place.position, ""}), "");
}

TEST(Trainer, FirstValuesAreTheSameOnAnyMesh) {
  std::vector<double> first;
  for (const char* mesh : {"", "tp=4"}) {
    for (int64_t seed : {1, 2}) {
      ScratchFolder folder("first");
      first.push_back(Train(mesh, 1, folder.path(), {.seed = seed})[1]);
    }
  }
  EXPECT_NEAR(first[0], first[2], 1e-12);
  EXPECT_NEAR(first[1], first[3], 1e-12);
  EXPECT_NE(first[0], first[1]);
}

TEST(Trainer, EvaluatesWithTheParamsAsTheyAre) {
  for (const char* mesh : {"", "dp=2"}) {
    ASYRA_CHECK_OK(OnTrainers(
        Programs(mesh), {},
        [&](Trainer& trainer, TokenBatches& data) -> absl::Status {
          for (int step = 1; step <= 4; ++step) {
            std::vector<Tensor> batch = ASYRA_VALUE(data.Next());
            Trainer::LossSum loss = ASYRA_VALUE(trainer.Evaluate(batch));
            EXPECT_EQ(loss.count, 64);
            ASYRA_RETURN_IF_ERROR(trainer.Step(batch, {.rate = 0.01}));
            TrainMetrics metrics = ASYRA_VALUE(trainer.Metrics());
            EXPECT_EQ(metrics.step, step);
            EXPECT_NEAR(metrics.loss, loss.mean(), 1e-12);
            EXPECT_EQ(metrics.rate, 0.01);
            EXPECT_GT(metrics.tokens_per_s, 0);
            EXPECT_EQ(metrics.mfu, 0);  // peaks are those of GPUs
          }
          EXPECT_EQ(trainer.tokens_per_batch(), 64);
          return absl::OkStatus();
        }));
  }
}

TEST(Trainer, ExportsParamsUnderTheirNames) {
  ScratchFolder folder("export");
  std::string path = folder.path() + "/model.safetensors";
  for (const char* mesh : {"", kLargest}) {
    ASYRA_CHECK_OK(OnTrainers(
        Programs(mesh), {},
        [&](Trainer& trainer, TokenBatches&) { return trainer.Export(path); }));
    EXPECT_EQ(folder.Names(), std::vector<std::string>({"model.safetensors"}));
    auto weights = ASYRA_VALUE(ReadWeights(path));
    const Program& step = Programs(mesh).step;
    size_t params = 0;
    for (const Input& input : step.inputs) {
      if (input.role != InputRole::kParam) continue;
      ++params;
      const Tensor* tensor = weights->Find(step.value_name(input.value));
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(tensor->shape(), step.GivenShape(input));
    }
    EXPECT_EQ(weights->size(), params);
  }
}

// One step, then one in which a param is infinite, then what `body` does.
absl::Status WithInfiniteParam(NotFinite policy, const TrainerBody& body,
                               bool check_finite = false) {
  return OnTrainers(
      Programs("dp=2"), {.not_finite = policy, .check_finite = check_finite},
      [&](Trainer& trainer, TokenBatches& data) -> absl::Status {
        ASYRA_RETURN_IF_ERROR(StepsUpTo(1, trainer, data));
        Tensor kept = ASYRA_VALUE(trainer.states().Get("norm.weight"));
        Tensor bad(kept.dtype(), kept.shape());
        bad.Set(0, HUGE_VAL);
        ASYRA_RETURN_IF_ERROR(trainer.states().Set("norm.weight", bad));
        Tensor other = ASYRA_VALUE(trainer.states().Get("norm.bias.weight"));
        absl::Status status = StepsUpTo(2, trainer, data);
        if (check_finite) return status;
        EXPECT_EQ(status.ok(), policy == NotFinite::kSkip) << status;
        if (!status.ok()) {
          EXPECT_THAT(std::string(MessageOf(status)),
                      HasSubstr("step 2: the loss is"));
          EXPECT_THAT(std::string(MessageOf(status)),
                      HasSubstr("the step changed nothing"));
        }
        EXPECT_EQ(trainer.steps_skipped(), 1);
        EXPECT_TRUE(trainer.TakeMetrics().back().skipped);
        // All is as before, also the count of updates.
        EXPECT_TRUE(SameBytes(
            other, ASYRA_VALUE(trainer.states().Get("norm.bias.weight"))));
        EXPECT_EQ(ASYRA_VALUE(trainer.states().Get(kStepCount)).GetInt(0), 1);
        ASYRA_RETURN_IF_ERROR(trainer.states().Set("norm.weight", kept));
        return body(trainer, data);
      });
}

TEST(NotFiniteStep, IsSkippedOrStopsAndCanBeGoneOnFrom) {
  for (NotFinite policy : {NotFinite::kSkip, NotFinite::kStop}) {
    ASYRA_CHECK_OK(WithInfiniteParam(
        policy, [](Trainer& trainer, TokenBatches& data) -> absl::Status {
          ASYRA_RETURN_IF_ERROR(StepsUpTo(4, trainer, data));
          EXPECT_EQ(trainer.steps_skipped(), 1);
          EXPECT_TRUE(std::isfinite(ASYRA_VALUE(trainer.Metrics()).loss));
          return absl::OkStatus();
        }));
  }
}

// Without clipping the loss alone is waited for: a gradient that is not finite
// is in params or states by then.
TEST(NotFiniteStep, WithoutClippingTheLossTells) {
  const TrainingPrograms programs =
      SmallTraining("dp=2", TrainOptions{.clip = 0});
  EXPECT_EQ(programs.info.guard, StepGuard::kLoss);
  EXPECT_EQ(Programs("dp=2").info.guard, StepGuard::kNorm);
  auto train_with = [&](double param) {
    return OnTrainers(
        programs, {.not_finite = NotFinite::kSkip},
        [&](Trainer& trainer, TokenBatches& data) -> absl::Status {
          ASYRA_RETURN_IF_ERROR(StepsUpTo(1, trainer, data));
          Tensor kept = ASYRA_VALUE(trainer.states().Get("norm.weight"));
          Tensor bad(kept.dtype(), kept.shape());
          for (int64_t i = 0; i < bad.num_elements(); ++i) bad.Set(i, param);
          ASYRA_RETURN_IF_ERROR(trainer.states().Set("norm.weight", bad));
          absl::Status status = StepsUpTo(2, trainer, data);
          EXPECT_EQ(trainer.steps_skipped(), std::isinf(param) ? 1 : 0);
          EXPECT_EQ(ASYRA_VALUE(trainer.states().Get(kStepCount)).GetInt(0),
                    std::isinf(param) ? 1 : 2);
          EXPECT_EQ(trainer.Finish(), status);  // it is final
          return status;
        });
  };
  ASYRA_CHECK_OK(train_with(HUGE_VAL));
  // Squares of gradients overflow, and the loss does not.
  EXPECT_THAT(std::string(MessageOf(train_with(1e160))),
              testing::AllOf(HasSubstr("step 2: the loss is "),
                             HasSubstr("the norm of the gradients inf"),
                             HasSubstr("without clipping")));
}

TEST(NotFiniteStep, NamesTheOpWhereItIsAsked) {
  std::string message(MessageOf(WithInfiniteParam(
      NotFinite::kStop, [](auto&, auto&) { return absl::OkStatus(); },
      /*check_finite=*/true)));
  EXPECT_THAT(message, HasSubstr("step 2: "));
  EXPECT_THAT(message, HasSubstr("layer_norm"));
}

TEST(Trainer, NeedsItsMemoryBeforeAnythingRuns) {
  const TrainingPrograms& programs = Programs("");
  TrainingMemory memory = ASYRA_VALUE(PlanTrainingMemory(programs, true));
  EXPECT_GT(memory.params, 0);
  // Two moments of each param, and the count of steps.
  EXPECT_EQ(memory.states, 2 * memory.params + 8);
  EXPECT_GT(memory.step, memory.evaluate);
  auto small = CreateCpuDevice({.memory_bytes = memory.total() - 1});
  auto trainer = ASYRA_VALUE(Trainer::Create(programs));
  absl::Status status = trainer->Prepare(*small, nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(MessageOf(status)),
              testing::AllOf(HasSubstr("the training needs"),
                             HasSubstr("optimizer states"),
                             HasSubstr("are left on the cpu, for 1 rank")));
  // What is planned is what is reserved, up to workspaces.
  auto device = CreateCpuDevice();
  trainer = ASYRA_VALUE(Trainer::Create(programs));
  ASYRA_CHECK_OK(trainer->Prepare(*device, nullptr));
  MemoryUse use = trainer->memory();
  EXPECT_NEAR(use.total() - use.workspace_bytes, memory.total(),
              0.01 * memory.total());
}

TEST(Trainer, ErrorsAreNamed) {
  auto device = CreateCpuDevice();
  auto trainer = ASYRA_VALUE(Trainer::Create(Programs("")));
  EXPECT_EQ(MessageOf(trainer->Step({}, {})), "Prepare was not called");
  ASYRA_CHECK_OK(trainer->Prepare(*device, nullptr, {.evaluates = false}));
  EXPECT_EQ(MessageOf(trainer->Step({}, {})),
            "a batch of 0 inputs is given, a step takes 2");
  EXPECT_EQ(MessageOf(trainer->Accumulate({})),
            "the folder has no program accumulate");
  EXPECT_EQ(MessageOf(trainer->Evaluate({}).status()),
            "Evaluate: the trainer was prepared without (evaluates = false)");
  EXPECT_EQ(MessageOf(trainer->Metrics().status()), "no step has run");
  EXPECT_EQ(
      MessageOf(
          Trainer::Create(
              {.step =
                   ASYRA_VALUE(Executor::Load(Programs("").init))->program()})
              .status()),
      "@init has no input %rate: it is no training step");
  // Of another optimizer.
  ScratchFolder folder("sgd");
  auto sgd = ASYRA_VALUE(
      Trainer::Create(SmallTraining("", TrainOptions{.optimizer = "sgd"})));
  ASYRA_CHECK_OK(sgd->Prepare(*device, nullptr));
  ASYRA_CHECK_OK(sgd->Save(folder.path()));
  ASYRA_CHECK_OK(sgd->FinishSave());
  std::string refused(MessageOf(trainer->Restore(sgd->last_checkpoint())));
  EXPECT_THAT(refused, HasSubstr(sgd->last_checkpoint()));
  EXPECT_THAT(refused, HasSubstr(".m"));
}

TEST(Trainer, ARateThatIsNoneIsRefusedBeforeAnythingChanges) {
  ScratchFolder refused("refused"), plain("plain");
  auto train = [](const std::string& to, const std::vector<double>& wrong) {
    ASYRA_CHECK_OK(OnTrainers(
        Programs("dp=2"), {},
        [&](Trainer& trainer, TokenBatches& data) -> absl::Status {
          for (int64_t step = 1; step <= 3; ++step) {
            ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data.Next());
            for (double rate : wrong) {
              EXPECT_EQ(MessageOf(trainer.Step(batch, {.rate = rate})),
                        fmt::format("the learning rate is {}, it must be "
                                    "finite and at least 0",
                                    rate));
              EXPECT_EQ(trainer.step(), step - 1);
            }
            ASYRA_RETURN_IF_ERROR(trainer.Step(batch, {.rate = 0.01}));
          }
          ASYRA_RETURN_IF_ERROR(trainer.Save(to));
          return trainer.FinishSave();
        }));
  };
  train(plain.path(), {});
  train(refused.path(), {NAN, HUGE_VAL, -HUGE_VAL, -0.5});
  ExpectSameTensors(Newest(refused.path()).tensors(),
                    Newest(plain.path()).tensors());
}

// A checkpoint of each step is written behind the next one, which is in flight
// while the host evaluates.
TEST(Trainer, SavesEachStepBehindTheNext) {
  ScratchFolder folder("behind");
  constexpr int64_t kLast = 6;
  ASYRA_CHECK_OK(OnTrainers(
      Programs(kLargest), {},
      [&](Trainer& trainer, TokenBatches& data) -> absl::Status {
        for (int64_t step = 1; step <= kLast; ++step) {
          ASYRA_RETURN_IF_ERROR(StepsUpTo(step - 1, trainer, data));
          ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data.Next());
          ASYRA_RETURN_IF_ERROR(trainer.Step(batch, {.rate = 0.01}));
          ASYRA_RETURN_IF_ERROR(trainer.Save(folder.path()));
          ASYRA_RETURN_IF_ERROR(trainer.Evaluate(batch).status());
        }
        EXPECT_EQ(trainer.TakeMetrics().size(), static_cast<size_t>(kLast));
        return trainer.FinishSave();
      }));
  std::vector<std::string> all = ASYRA_VALUE(ListCheckpoints(folder.path()));
  ASSERT_EQ(all.size(), static_cast<size_t>(kLast));
  for (const std::string& one : all) {
    ASYRA_CHECK_OK(ASYRA_VALUE(Checkpoint::Open(one)).CheckData(0, 1));
  }
}

// Steps, evaluations and checkpoints, of both ranks.
TEST(Trainer, ManyStepsLeaveNothingBehind) {
  ScratchFolder folder("many");
  constexpr int64_t kSteps = kSanitized ? 100 : 500;
  // By the last of the ranks to come, while the other waits.
  std::vector<ProcessSize> sizes;
  std::barrier together(
      2, [&]() noexcept { sizes.push_back(ProcessSize::Now()); });
  ASYRA_CHECK_OK(OnTrainers(
      Programs("dp=2"), {.checkpoints = {.keep = 2}},
      [&](Trainer& trainer, TokenBatches& data) -> absl::Status {
        for (int64_t i = 1; i <= 10; ++i) {
          ASYRA_RETURN_IF_ERROR(StepsUpTo(i * kSteps / 10, trainer, data));
          ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data.Next());
          ASYRA_RETURN_IF_ERROR(trainer.Evaluate(batch).status());
          ASYRA_RETURN_IF_ERROR(trainer.Save(folder.path()));
          ASYRA_RETURN_IF_ERROR(trainer.FinishSave());
          together.arrive_and_wait();
        }
        return absl::OkStatus();
      }));
  ASSERT_EQ(sizes.size(), 10u);
  ExpectHasNotGrown(sizes.back(), sizes[1]);
  EXPECT_EQ(ProcessSize::EntriesIn(folder.path()), 2);
}

// By the rank that looks at the tensor, and by the others with its error.
TEST(Trainer, DamagedDataIsRefused) {
  ScratchFolder folder("flipped");
  Train("dp=2", 1, folder.path());
  std::string path = ASYRA_VALUE(NewestCheckpoint(folder.path(), nullptr)) +
                     "/state-00001-of-00001.safetensors";
  std::string bytes = ASYRA_VALUE(ReadFile(path));
  bytes[bytes.size() / 2] ^= 1;
  ASYRA_CHECK_OK(WriteFileAtomically(path, {bytes}));
  absl::Status status =
      OnTrainers(Programs("dp=2"), {.resume_from = folder.path()},
                 [](Trainer&, TokenBatches&) { return absl::OkStatus(); });
  EXPECT_THAT(std::string(MessageOf(status)),
              testing::ContainsRegex(path + ": the data of tensor .* changed"));
}

// As after scheduling, but with overlaps wherever they may be formed.
TrainingPrograms Overlapped(const std::string& mesh) {
  TrainingPrograms programs = Programs(mesh);
  Program& step = programs.step;
  step.stage = Stage::kScheduled;
  for (Value& value : step.values) value.offset = -1;
  CostModel costs = Costs(step);
  PassContext context;
  context.costs = &costs;
  ASYRA_CHECK_OK(
      RunPasses(step, "form_overlaps{always=true}, plan_memory", context));
  return programs;
}

// Overlaps with a plan run whole.
TEST(Trainer, ProfilesAreOfTheStepAsItRuns) {
  TrainingPrograms programs = Overlapped("dp=2");
  ASYRA_CHECK_OK(
      OnTrainers(programs, {.profile = true},
                 [&](Trainer& trainer, TokenBatches& data) -> absl::Status {
                   ASYRA_RETURN_IF_ERROR(StepsUpTo(2, trainer, data));
                   const Program& step = trainer.running_step();
                   size_t overlaps = 0;
                   for (const OpTime& time : trainer.Profile()) {
                     const Op& op = step.ops.at(time.op);
                     EXPECT_EQ(IsOverlap(*op.def), !time.parts.empty());
                     if (!time.parts.empty()) ++overlaps;
                   }
                   EXPECT_GT(overlaps, 0);
                   return absl::OkStatus();
                 }));
}

TEST(TrainingFolder, IsReadAsItWasWritten) {
  ScratchFolder folder("training");
  const TrainingPrograms& written = Programs("dp=2");
  ASYRA_CHECK_OK(WriteTrainingFolder(written, folder.path()));
  auto trainer = ASYRA_VALUE(Trainer::Load(folder.path()));
  const TrainingPrograms& read = trainer->programs();
  EXPECT_EQ(ToString(read.step), ToString(written.step));
  EXPECT_EQ(ToString(read.init), ToString(written.init));
  EXPECT_EQ(read.info.program_hash, written.info.program_hash);
  EXPECT_EQ(read.info.peak_us, written.info.peak_us);
  // Equal on all meshes, unlike that of another model.
  EXPECT_EQ(written.info.program_hash, Programs("tp=4").info.program_hash);
  ASYRA_CHECK_OK(WriteFileAtomically(folder.path() + "/evaluate.asyra",
                                     {ToString(Programs("").evaluate)}));
  EXPECT_THAT(std::string(MessageOf(Trainer::Load(folder.path()).status())),
              HasSubstr("evaluate.asyra: it is for (), the step for (dp=2)"));
}

}  // namespace
}  // namespace asyra
