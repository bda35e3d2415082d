// Documents that follow each other in rows of tokens: a step on rows of several
// computes what it computes on a row for each of them.
#include <map>
#include <mutex>

#include "gmock/gmock.h"
#include "ir/parser.h"
#include "ir/training_names.h"
#include "tests/train/small_training.h"

namespace asyra {
namespace {

using testing::ElementsAre;

constexpr int64_t kEnd = '.';

// Positions of a llama are rotations: only distances count.
CompileFlags FlagsOf(int rows, int length, const std::string& mesh = "") {
  CompileFlags flags = SmallTrainingFlags(mesh);
  flags.model = "llama3-tiny";
  flags.dims = {"layers=2", fmt::format("batch={}", rows),
                fmt::format("seq={}", length), "vocabulary=128"};
  flags.documents = 2;
  return flags;
}

std::shared_ptr<const TokenFiles> TextOf(const std::string& text) {
  ScratchFolder folder("documents");
  std::string path = folder.path() + "/text";
  ASYRA_CHECK_OK(WriteFileAtomically(path, {text}));
  return std::make_shared<const TokenFiles>(
      ASYRA_VALUE(TokenFiles::Open({path})));
}

// Documents of `length` tokens each, all different.
std::shared_ptr<const TokenFiles> EqualDocuments(int length) {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k + 1 < length; ++k) {
      text += static_cast<char>('a' + (7 * i + 3 * k + i * k) % 26);
    }
    text += static_cast<char>(kEnd);
  }
  return TextOf(text);
}

struct Steps {
  std::vector<double> losses, norms;
  int64_t count = 0;  // of labels in a batch
};

// Steps of a training on each rank of its mesh.
Steps TrainOn(const CompileFlags& flags,
              const std::shared_ptr<const TokenFiles>& text) {
  TrainingPrograms programs = ProgramsOfFlags(flags);
  auto device = CreateCpuDevice({.threads_per_stream = 1});
  Steps all;
  std::mutex mutex;
  ASYRA_CHECK_OK(RunLocalRanks(
      programs.step.mesh.num_devices(), {},
      [&](Communicator& world) -> absl::Status {
        ASYRA_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(programs));
        ASYRA_RETURN_IF_ERROR(trainer->Prepare(*device, &world));
        ASYRA_ASSIGN_OR_RETURN(
            auto data, TokenBatches::Open(text, programs.step, world.rank(),
                                          {.document_end = kEnd}));
        Steps own;
        for (int step = 0; step < 3; ++step) {
          ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> batch, data->Next());
          own.count = ASYRA_VALUE(trainer->Evaluate(batch)).count;
          ASYRA_RETURN_IF_ERROR(trainer->Step(batch, {.rate = 0.01}));
          TrainMetrics metrics = ASYRA_VALUE(trainer->Metrics());
          own.losses.push_back(metrics.loss);
          own.norms.push_back(metrics.norm);
        }
        std::lock_guard lock(mutex);
        all = std::move(own);
        return absl::OkStatus();
      }));
  return all;
}

void ExpectSame(const Steps& a, const Steps& b, double tolerance) {
  EXPECT_EQ(a.count, b.count);
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance) << "step " << i;
    EXPECT_NEAR(a.norms[i], b.norms[i], tolerance) << "step " << i;
  }
}

TEST(Documents, RowsOfSeveralAreARowForEach) {
  auto text = EqualDocuments(8);
  Steps packed = TrainOn(FlagsOf(4, 16), text);
  // Two ends in each row, whose labels are of other documents.
  EXPECT_EQ(packed.count, 4 * 14);
  ExpectSame(packed, TrainOn(FlagsOf(8, 8), text), 1e-10);
  // Without the flag the model takes no starts.
  CompileFlags open = FlagsOf(4, 16);
  open.documents = 0;
  TrainingPrograms programs = ProgramsOfFlags(open);
  EXPECT_EQ(programs.step.FindValue(kDocumentStarts), kNoValue);
}

TEST(Documents, MeshesAgree) {
  // Documents whose lengths fit no shard.
  std::string text;
  for (int i = 0; i < 90; ++i) {
    text += std::string(1 + i * 5 % 11, static_cast<char>('a' + i % 26)) + ".";
  }
  Steps whole = TrainOn(FlagsOf(4, 16), TextOf(text));
  for (const char* mesh : {"dp=2", "tp=2", "sp=2", "sp=4", "dp=2,sp=2"}) {
    SCOPED_TRACE(mesh);
    ExpectSame(TrainOn(FlagsOf(4, 16, mesh), TextOf(text)), whole, 1e-10);
  }
  for (const char* stripes : {"never", "always"}) {
    SCOPED_TRACE(stripes);
    CompileFlags flags = FlagsOf(4, 16, "sp=2");
    flags.stripes = stripes;
    ExpectSame(TrainOn(flags, TextOf(text)), whole, 1e-10);
  }
}

// A program over tokens, labels and positions [1, 8], ids of which a mesh
// shards.
std::string ProgramOf(std::string_view positions) {
  return fmt::format(R"(asyra 1 local
mesh (sp=2)

program @f(%ids: i64[1, 8@sp], %labels: i64[1, 8@sp], %document_starts: i64[1, 8@sp],
    %position_ids: {}, %table: f32[128, 128] weight) -> (f32[1, 8@sp]) {{
  %x = embedding(%table, %ids) : f32[1, 8@sp, 128]
  %y = cross_entropy(%x, %labels) {{ignore_index=-7}} : f32[1, 8@sp]
  return %y
}}
)",
                     positions);
}

TEST(Documents, BatchesHaveStartsLabelsAndPlaces) {
  Program program = ASYRA_VALUE(ParseProgram(ProgramOf("i32[1, 8]")));
  auto text = TextOf("a.bcd..efg");
  auto data =
      ASYRA_VALUE(TokenBatches::Open(text, program, 1, {.document_end = kEnd}));
  std::vector<Tensor> batch = ASYRA_VALUE(data->Next());
  ASSERT_EQ(batch.size(), 4u);
  EXPECT_THAT(batch[0].ToInts(), ElementsAre('d', '.', '.', 'e'));
  EXPECT_THAT(batch[1].ToInts(), ElementsAre('.', -7, -7, 'f'));
  EXPECT_THAT(batch[2].ToInts(), ElementsAre(2, 2, 6, 7));
  // Whole, where tokens are sharded.
  EXPECT_EQ(batch[3].dtype(), DType::kI32);
  EXPECT_THAT(batch[3].ToInts(), ElementsAre(0, 1, 0, 1, 2, 3, 0, 0));
}

TEST(Documents, WhatDoesNotGoTogetherIsRefused) {
  auto text = EqualDocuments(8);
  auto error = [&](const Program& program, const TokenReaderOptions& options) {
    auto data = TokenBatches::Open(text, program, 0, options);
    return data.ok() ? "no error" : std::string(MessageOf(data.status()));
  };
  Program with = ASYRA_VALUE(ParseProgram(ProgramOf("i32[1, 8]")));
  EXPECT_EQ(error(with, {}),
            "the model takes %document_starts: tell the last token of each "
            "document (--document-end)");
  CompileFlags flags = FlagsOf(4, 16);
  flags.documents = 0;
  EXPECT_EQ(error(ProgramsOfFlags(flags).step, {.document_end = 46}),
            "documents end with token 46, but the model has no "
            "%document_starts: it was compiled without --documents");
  Program shared = ASYRA_VALUE(ParseProgram(ProgramOf("i64[8]")));
  EXPECT_EQ(error(shared, {.document_end = 46}),
            "%position_ids is i64[8], the tokens are [1,8]: documents begin "
            "in other places of each row");
}

}  // namespace
}  // namespace asyra
