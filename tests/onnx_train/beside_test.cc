// The programs beside a training step, of random ONNX models on random meshes
// that divide few of their sizes: what evaluates and what accumulates take the
// step's shardings and padding. Where the step compiles, they do.
//
// ASYRA_SEED repeats one model, ASYRA_SEEDS sets how many are drawn.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "passes/shard/padded_sizes.h"
#include "tests/onnx_train/read_sites.h"
#include "tests/support/sanitized.h"
#include "tools/train/compile_training.h"

namespace asyra {
namespace {

constexpr int kSites = 4;

RandomOnnxModel Drawn(RandomChoice* choice) {
  std::vector<ReadSite> sites = ReadSites();
  RandomOnnxModel model(choice, 24);
  model.Continue(model.Op(
      "MatMul",
      {"x", model.Weight({RandomOnnxModel::kWidth, RandomOnnxModel::kWidth})}));
  for (int i = 0; i < kSites; ++i) {
    model.Continue(sites[choice->Below(sites.size())].read(model));
  }
  model.Finish();
  return model;
}

CompileFlags FlagsOf(RandomChoice* choice, const std::string& path) {
  CompileFlags flags;
  flags.model = path;
  const char* meshes[] = {"tp=2",      "tp=3",      "tp=5",      "tp=7",
                          "dp=2",      "dp=2,tp=2", "dp=2,tp=3", "dp=4,tp=2",
                          "sp=2,tp=3", "ep=2,tp=3", "m=3",       "sp=2"};
  flags.mesh = meshes[choice->Below(std::size(meshes))];
  const char* strategies[] = {"auto", "sequence", "replicated"};
  flags.tp_strategy = strategies[choice->Below(3)];
  flags.tiles = 1;
  flags.scheduler = "serial";
  flags.search_steps = 1;
  flags.train = TrainOptions();
  const char* levels[] = {"auto", "0", "1", "2", "3"};
  flags.train->zero = levels[choice->Below(5)];
  flags.train->accumulate = choice->Half() ? 2 : 1;
  if (choice->Half()) flags.train->optimizer = "sgd";
  if (choice->Half()) flags.dtype = choice->Half() ? "bf16" : "f32";
  return flags;
}

struct Seen {
  int models = 0, compiled = 0, padded = 0, refused = 0;
};

void CheckModel(uint64_t seed, const std::string& path, Seen* seen) {
  RandomChoice choice(seed);
  RandomOnnxModel drawn = Drawn(&choice);
  std::ofstream(path) << drawn.builder().model.SerializeAsString();
  CompileFlags flags = FlagsOf(&choice, path);
  SCOPED_TRACE(fmt::format("ASYRA_SEED={}, {}, zero {}, tp-strategy {}", seed,
                           *flags.mesh, flags.train->zero, flags.tp_strategy));
  ++seen->models;
  absl::StatusOr<RaisedModel> model = LoadRaised(flags);
  ASSERT_TRUE(model.ok()) << model.status();
  absl::StatusOr<CompiledTraining> training = CompileTraining(flags, *model);
  if (training.ok()) {
    ++seen->compiled;
    seen->padded += PaddedSizes(training->step.program) == "none" ? 0 : 1;
    return;
  }
  ++seen->refused;
  std::string message(MessageOf(training.status()));
  EXPECT_THAT(message, testing::AnyOf(testing::HasSubstr("shards nothing"),
                                      testing::HasSubstr("shards no experts")));
}

// A table that is the head transposed, of sizes that few meshes divide, and an
// MLP whose activation is not zero at zero.
std::string TiedModel() {
  constexpr int kBatch = 4, kSeq = 6, kVocabulary = 11, kHidden = 8, kInner = 9;
  auto number = [](int row, int column) {
    return ((row * 31 + column * column * 17 + 5) % 23 - 11) / 23.0;
  };
  auto matrix = [&](int rows, int columns, bool transposed) {
    std::vector<float> data;
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < columns; ++c) {
        data.push_back(
            static_cast<float>(transposed ? number(c, r) : number(r, c)));
      }
    }
    return data;
  };
  ModelBuilder builder;
  builder.Input("ids", kI64, {kBatch, kSeq})
      .Floats("table.weight", matrix(kVocabulary, kHidden, false),
              {kVocabulary, kHidden})
      .Floats("head.weight", matrix(kHidden, kVocabulary, true),
              {kHidden, kVocabulary})
      .Floats("up.weight", matrix(kHidden, kInner, false), {kHidden, kInner})
      .Floats("down.weight", matrix(kInner, kHidden, false), {kInner, kHidden})
      .Node("Gather", {"table.weight", "ids"}, {"x"}, {{"axis", 0}})
      .Node("MatMul", {"x", "up.weight"}, {"h"})
      .Node("Softplus", {"h"}, {"a"})
      .Node("MatMul", {"a", "down.weight"}, {"y"})
      .Node("Add", {"x", "y"}, {"z"})
      .Node("MatMul", {"z", "head.weight"}, {"logits"})
      .Output("logits", kF32, {kBatch, kSeq, kVocabulary});
  return builder.model.SerializeAsString();
}

TEST(Beside, ATiedModelIsPaddedOnAnyMesh) {
  std::string path = (std::filesystem::temp_directory_path() /
                      fmt::format("tied_{}.onnx", ::getpid()))
                         .string();
  std::ofstream(path) << TiedModel();
  int padded = 0;
  for (const char* mesh : {"tp=2", "tp=3", "tp=5", "tp=6", "tp=7", "dp=2,tp=3",
                           "sp=2,tp=3", "dp=2,sp=3,tp=5"}) {
    for (const char* zero : {"0", "3"}) {
      SCOPED_TRACE(fmt::format("{}, zero {}", mesh, zero));
      CompileFlags flags;
      flags.model = path;
      flags.mesh = mesh;
      flags.tiles = 1;
      flags.scheduler = "serial";
      flags.search_steps = 1;
      flags.train = TrainOptions();
      flags.train->zero = zero;
      flags.train->accumulate = 2;
      RaisedModel model = ASYRA_VALUE(LoadRaised(flags));
      absl::StatusOr<CompiledTraining> training = CompileTraining(flags, model);
      ASSERT_TRUE(training.ok()) << training.status();
      padded += PaddedSizes(training->step.program) == "none" ? 0 : 1;
    }
  }
  std::filesystem::remove(path);
  EXPECT_GE(padded, 8);
}

TEST(BesideProperty, ProgramsBesideAStepTakeItsShardings) {
  const char* given = std::getenv("ASYRA_SEED");
  const char* count = std::getenv("ASYRA_SEEDS");
  uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 0;
  uint64_t models = given != nullptr   ? 1
                    : count != nullptr ? std::strtoull(count, nullptr, 10)
                    : kSanitized       ? 8
                                       : 40;
  std::string path = (std::filesystem::temp_directory_path() /
                      fmt::format("beside_{}.onnx", ::getpid()))
                         .string();
  Seen seen;
  for (uint64_t seed = first; seed < first + models; ++seed) {
    CheckModel(seed, path, &seen);
  }
  std::filesystem::remove(path);
  printf("%d models, %d compiled, %d of them padded, %d steps refused\n",
         seen.models, seen.compiled, seen.padded, seen.refused);
  if (models < 40) return;
  EXPECT_GE(seen.compiled, seen.models / 3);
  EXPECT_GE(seen.padded, 1);
}

}  // namespace
}  // namespace asyra
