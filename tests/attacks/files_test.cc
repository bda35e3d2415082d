// Hostile files of each kind: refused, or taken and then used, and never the
// end of the process. A few hundred in the suite; by hand
//
//   ASYRA_ATTACKS=10000 ctest -L attacks
//
// and one again with ASYRA_ATTACK_SEED=N and --gtest_filter.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "c/asyra.h"
#include "executor/train/checkpoint.h"
#include "executor/train/token_files.h"
#include "executor/train/token_reader.h"
#include "executor/tuning/tuning_file.h"
#include "gtest/gtest.h"
#include "ir/weights/weight_store.h"
#include "simulator/cost/cost_table.h"
#include "tests/attacks/attack.h"
#include "tests/train/small_training.h"

namespace asyra {
namespace {

constexpr int64_t kFew = 60;  // of a kind, in the suite

const std::string kSource = ASYRA_SOURCE_DIR;

class Attacked : public testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return folder_.path() + "/" + name;
  }
  ScratchFolder folder_{"attacks"};
};

// A step on inputs that are all ones; the programs are small.
void Step(asyra_rank* rank, const asyra_program* program) {
  constexpr int64_t kMostBytes = 64 << 20;
  asyra_executor* executor = nullptr;
  if (asyra_executor_create(rank, program, nullptr, &executor) != ASYRA_OK) {
    return;
  }
  asyra_tensor_info info = {.size = sizeof(info)};
  std::vector<std::vector<char>> buffers;
  bool fits = true;
  for (int32_t i = 0; asyra_executor_input(executor, i, &info) == ASYRA_OK;
       ++i) {
    fits = fits && info.bytes <= kMostBytes;
    buffers.emplace_back(fits ? info.bytes + 1 : 1, char{1});
  }
  std::vector<const void*> inputs;
  inputs.reserve(buffers.size());
  for (const std::vector<char>& buffer : buffers) {
    inputs.push_back(buffer.data());
  }
  if (fits) static_cast<void>(asyra_executor_step(executor, inputs.data()));
  asyra_executor_free(executor);
}

asyra_status StepOnRank(asyra_rank* rank, void* program) {
  Step(rank, static_cast<const asyra_program*>(program));
  return ASYRA_OK;
}

// Loads a file through C, and simulates, compiles, saves and runs what loads.
bool UseProgram(const std::string& path) {
  asyra_program *program = nullptr, *compiled = nullptr;
  if (asyra_program_load(path.c_str(), nullptr, &program) != ASYRA_OK) {
    if (*asyra_last_error() == '\0') std::abort();  // each has a message
    return false;
  }
  asyra_simulation simulated = {.size = sizeof(simulated)};
  static_cast<void>(asyra_program_simulate(program, "h100x8", &simulated));
  static_cast<void>(
      asyra_program_save(program, (path + ".saved.asyra").c_str()));
  int64_t ranks = asyra_program_ranks(program);
  if (ranks <= 4) {
    static_cast<void>(asyra_run_ranks("cpu", ranks, StepOnRank, program));
  }
  if (asyra_program_compile(program, "tp=2", "h100x8", 1, &compiled) ==
      ASYRA_OK) {
    static_cast<void>(asyra_program_simulate(compiled, "h200x8", &simulated));
    static_cast<void>(asyra_run_ranks("cpu", 2, StepOnRank, compiled));
  }
  asyra_program_free(compiled);
  asyra_program_free(program);
  return true;
}

void ExpectBoth(const Outcome& outcome, int64_t count) {
  EXPECT_EQ(outcome.crashed + outcome.hung, 0);
  if (count < kFew) return;
  // A damage that nothing takes, or that everything does, shows nothing.
  EXPECT_GT(outcome.refused, 0);
  EXPECT_GT(outcome.taken, 0);
}

TEST_F(Attacked, TextPrograms) {
  std::vector<GoodFile> files;
  for (const GoodFile& fixture :
       FilesBelow(kSource + "/tests/fixtures", ".asyra", 20'000)) {
    // Both programs of a fixture; the first line says its stage.
    size_t middle = fixture.bytes.find("// ----\n");
    files.push_back({fixture.path, fixture.bytes.substr(0, middle)});
    if (middle == std::string::npos) continue;
    files.push_back(
        {fixture.path + " after", fixture.bytes.substr(middle + 8)});
  }
  int64_t count = Attacks(3 * kFew);
  std::string file = path("f.asyra");
  ExpectBoth(Attack("text programs", files, count, file,
                    [&] { return UseProgram(file); }),
             count);
}

TEST_F(Attacked, OnnxModels) {
  std::vector<GoodFile> files =
      FilesBelow(kSource + "/tests/fuzz/onnx_seeds", ".onnx", 200'000);
  for (GoodFile& model : FilesBelow(kSource + "/models", ".onnx", 60'000)) {
    files.push_back(std::move(model));
  }
  int64_t count = Attacks(kFew);
  std::string file = path("f.onnx");
  ExpectBoth(Attack("ONNX models", files, count, file,
                    [&] { return UseProgram(file); }),
             count);
}

// Damaged where the weights are beside a program.
TEST_F(Attacked, Safetensors) {
  WeightStore store;
  Tensor w(DType::kF32, {4, 4}), odd(DType::kBF16, {3}), empty(DType::kI64, {});
  store.Set("w", w);
  store.Set("odd", odd);
  store.Set("none", empty);
  std::string program = path("f.asyra"), weights = path("f.safetensors");
  std::ofstream(program) << "asyra 1 global\nprogram @f(%x: f32[4, 4], %w: "
                            "f32[4, 4] weight) -> (f32[4, 4]) {\n  %y = "
                            "matmul(%x, %w) : f32[4, 4]\n  return %y\n}\n";
  ASYRA_CHECK_OK(WriteWeights(store, weights));
  int64_t count = Attacks(kFew);
  std::vector<GoodFile> files = {{weights, ASYRA_VALUE(ReadFile(weights))}};
  ExpectBoth(Attack("safetensors", files, count, weights,
                    [&] { return UseProgram(program); }),
             count);
}

TEST_F(Attacked, Checkpoints) {
  TrainingPrograms programs = SmallTraining("");
  std::string run = path("run");
  ASYRA_CHECK_OK(
      OnTrainers(programs, {}, [&](Trainer& trainer, TokenBatches& data) {
        ASYRA_RETURN_IF_ERROR(StepsUpTo(1, trainer, data));
        ASYRA_RETURN_IF_ERROR(trainer.Save(run));
        return trainer.FinishSave();
      }));
  std::string folder = ASYRA_VALUE(NewestCheckpoint(run, nullptr));
  for (const GoodFile& file : FilesBelow(folder, "", 1 << 20)) {
    bool data = file.path.ends_with(".safetensors");
    int64_t count = Attacks(kFew / 4) / (data ? 4 : 1);
    Attack("checkpoints: " + file.path.substr(folder.size() + 1), {file}, count,
           file.path, [&] {
             absl::StatusOr<Checkpoint> opened = Checkpoint::Open(folder);
             if (!opened.ok()) return false;
             return opened->CheckData(0, 1).ok();
           });
    std::ofstream(file.path, std::ios::binary) << file.bytes;
  }
}

TEST_F(Attacked, TrainingFolders) {
  std::string folder = path("training");
  ASYRA_CHECK_OK(WriteTrainingFolder(SmallTraining(""), folder));
  for (const char* name : {"training.json", "step.asyra"}) {
    std::string file = folder + "/" + name;
    GoodFile good = {file, ASYRA_VALUE(ReadFile(file))};
    Attack(std::string("training folders: ") + name, {good}, Attacks(kFew / 4),
           file, [&] {
             auto trainer = Trainer::Load(folder);
             if (!trainer.ok()) return false;
             return PlanTrainingMemory((*trainer)->programs(), true).ok();
           });
    std::ofstream(file, std::ios::binary) << good.bytes;
  }
}

TEST_F(Attacked, TokenFilesOfLlmc) {
  std::string bytes(1024 + 2 * 600, '\1');
  int32_t header[] = {20240520, 1, 600};
  std::memcpy(bytes.data(), header, sizeof(header));
  std::string wide(1024 + 4 * 600, '\0');
  int32_t wide_header[] = {20240801, 7, 600};
  std::memcpy(wide.data(), wide_header, sizeof(wide_header));
  const Type tokens(DType::kI64, {2, 16});
  std::string file = path("tokens.bin");
  int64_t count = Attacks(kFew);
  ExpectBoth(Attack("token files", {{"u16", bytes}, {"u32", wide}}, count, file,
                    [&] {
                      absl::StatusOr<TokenFiles> files =
                          TokenFiles::Open({file});
                      if (!files.ok()) return false;
                      auto shared =
                          std::make_shared<const TokenFiles>(*std::move(files));
                      auto reader = TokenReader::Open(shared, tokens, Mesh(), 0,
                                                      {.shuffle = true});
                      return reader.ok() && (*reader)->Next().ok();
                    }),
             count);
}

TEST_F(Attacked, MachineFiles) {
  std::vector<GoodFile> files =
      FilesBelow(kSource + "/simulator/machines", ".machine", 100'000);
  // Their tables are beside them.
  for (const GoodFile& table :
       FilesBelow(kSource + "/simulator/machines", ".table", 10 << 20)) {
    std::filesystem::create_symlink(
        table.path, path(std::filesystem::path(table.path).filename()));
  }
  asyra_program *model = nullptr, *compiled = nullptr;
  ASSERT_EQ(asyra_program_load("gpt3-tiny", "layers=1", &model), ASYRA_OK);
  ASSERT_EQ(asyra_program_compile(model, "tp=2", "h100x8", 1, &compiled),
            ASYRA_OK);
  std::string file = path("f.machine");
  int64_t count = Attacks(kFew);
  ExpectBoth(Attack("machine files", files, count, file,
                    [&] {
                      asyra_simulation result = {.size = sizeof(result)};
                      return asyra_program_simulate(compiled, file.c_str(),
                                                    &result) == ASYRA_OK;
                    }),
             count);
  asyra_program_free(compiled);
  asyra_program_free(model);
}

TEST_F(Attacked, CostTables) {
  std::vector<GoodFile> files;
  for (GoodFile& table :
       FilesBelow(kSource + "/simulator/machines", ".table", 10 << 20)) {
    // Some of their lines: damage to one of ten thousand would rarely matter.
    table.bytes.resize(std::min<size_t>(table.bytes.size(), 4000));
    table.bytes.resize(table.bytes.rfind(",\n"));
    table.bytes += "\n  ]\n}\n";
    files.push_back(std::move(table));
  }
  std::string file = path("f.table");
  int64_t count = Attacks(kFew);
  ExpectBoth(Attack("cost tables", files, count, file,
                    [&] {
                      auto text = ReadFile(file);
                      return text.ok() && ReadMeasurements(*text, file).ok();
                    }),
             count);
}

TEST_F(Attacked, TuningFiles) {
  std::string bytes = ToBytes({"cpu of a test",
                               {{"gemm", "key 1", "value 1"},
                                {"gate", "key 2", std::string(200, 'v')}}});
  std::string file = path("f.tuning");
  int64_t count = Attacks(kFew);
  Attack("tuning files", {{"tuning", bytes}}, count, file, [&] {
    auto text = ReadFile(file);
    return text.ok() && ParseTuningFile(*text).ok();
  });
}

}  // namespace
}  // namespace asyra
