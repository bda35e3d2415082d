#include "executor/train/checkpoint.h"

#include <fcntl.h>

#include <fstream>

#include "executor/train/checkpoint_layout.h"
#include "executor/train/checkpoint_writer.h"
#include "gmock/gmock.h"
#include "ir/parser.h"
#include "ir/support/file.h"
#include "nlohmann/json.hpp"
#include "tests/executor/ranks.h"
#include "tests/executor/train/checkpoint_case.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Mesh kFour = MeshOf({{"dp", 2}, {"tp", 2}});
constexpr AxisId kDp = 0, kTp = 1;

// Sharded in each way, replicated, padded, of several element types; more than
// one file in each group.
std::vector<CheckpointValue> Values() {
  return {
      {"w", TypeOf(DType::kF32, {{8, {kDp}}, {6, {kTp}}}), {8, 6}, true},
      {"table", TypeOf(DType::kF32, {{12, {kTp}}, {4, {}}}), {9, 4}, true},
      {"scale", TypeOf(DType::kBF16, {{4, {}}}), {4}, true},
      {"w.m", TypeOf(DType::kF64, {{8, {kTp, kDp}}, {6, {}}}), {8, 6}},
      {"step", TypeOf(DType::kI64, {}), {}},
      {"none", TypeOf(DType::kF32, {{0, {}}, {3, {}}}), {0, 3}},
  };
}

// The same values as another mesh holds them.
std::vector<CheckpointValue> With(std::vector<CheckpointValue> values,
                                  const std::vector<Type>& types) {
  for (size_t i = 0; i < values.size(); ++i) values[i].type = types[i];
  return values;
}

void WriteOnFour(const std::string& directory,
                 const std::vector<int64_t>& steps,
                 const CheckpointOptions& options = {.max_file_bytes = 200}) {
  auto results = OnRanks(4, {}, [&](Communicator& world) -> absl::Status {
    ASYRA_ASSIGN_OR_RETURN(
        auto writer,
        CheckpointWriter::Create(directory, Values(), kFour, &world, options));
    for (int64_t step : steps) {
      CheckpointInfo info{.program_hash = "abc",
                          .extra = {{"data", "17"}, {"seed", "naïve \"1\""}}};
      ASYRA_RETURN_IF_ERROR(SaveStep(*writer, kFour, world.rank(), step, info));
    }
    ASYRA_RETURN_IF_ERROR(writer->Finish());
    std::string newest =
        steps.empty() ? "" : fmt::format("step-{:08}", steps.back());
    EXPECT_THAT(writer->last_complete(), HasSubstr(newest));
    return absl::OkStatus();
  });
  for (const absl::Status& result : results) ASSERT_TRUE(result.ok()) << result;
}

TEST(Checkpoint, LoadsOnAnyMesh) {
  ScratchFolder folder("checkpoint");
  WriteOnFour(folder.path(), {7});
  std::string newest = ASYRA_VALUE(NewestCheckpoint(folder.path(), nullptr));
  EXPECT_EQ(newest, folder.path() + "/step-00000007");
  Checkpoint checkpoint = ASYRA_VALUE(Checkpoint::Open(newest));
  EXPECT_EQ(checkpoint.info().program_hash, "abc");
  EXPECT_EQ(checkpoint.info().extra.at("seed"), "naïve \"1\"");
  ASYRA_CHECK_OK(checkpoint.CheckFits(Values(), "abc"));
  ExpectHolds(checkpoint, Values(), kFour, 7);
  // One device, without padding.
  auto one = With(
      Values(),
      {TypeOf(DType::kF32, {{8, {}}, {6, {}}}),
       TypeOf(DType::kF32, {{9, {}}, {4, {}}}), TypeOf(DType::kBF16, {{4, {}}}),
       TypeOf(DType::kF64, {{8, {}}, {6, {}}}), TypeOf(DType::kI64, {}),
       TypeOf(DType::kF32, {{0, {}}, {3, {}}})});
  ASYRA_CHECK_OK(checkpoint.CheckFits(one, ""));
  ExpectHolds(checkpoint, one, Mesh(), 7);
  // Another mesh, with other padding.
  auto tp4 = With(Values(), {TypeOf(DType::kF32, {{8, {0}}, {6, {}}}),
                             TypeOf(DType::kF32, {{16, {0}}, {4, {}}}),
                             TypeOf(DType::kBF16, {{4, {0}}}),
                             TypeOf(DType::kF64, {{8, {}}, {6, {}}}),
                             TypeOf(DType::kI64, {}),
                             TypeOf(DType::kF32, {{0, {}}, {3, {}}})});
  ASYRA_CHECK_OK(checkpoint.CheckFits(tp4, "abc"));
  ExpectHolds(checkpoint, tp4, MeshOf({{"tp", 4}}), 7);
}

TEST(Checkpoint, IsSafetensorsThatAnyReaderOpens) {
  ScratchFolder folder("checkpoint");
  WriteOnFour(folder.path(), {3});
  std::string in = folder.path() + "/step-00000003/";
  auto index = nlohmann::json::parse(
      ASYRA_VALUE(ReadFile(in + "model.safetensors.index.json")));
  EXPECT_EQ(index["metadata"]["total_size"], 8 * 6 * 4 + 9 * 4 * 4 + 4 * 2);
  EXPECT_EQ(index["weight_map"].size(), 3u);
  EXPECT_EQ(index["weight_map"]["scale"], "model-00002-of-00002.safetensors");
  auto model =
      ASYRA_VALUE(ReadWeights(in + "model-00001-of-00002.safetensors"));
  EXPECT_EQ(model->size(), 1u);
  EXPECT_TRUE(SameBytes(*model->Find("w"), WholeOf(Values()[0], 3)));
  // The data ends where the last tensor does, as the format wants it.
  auto states =
      ASYRA_VALUE(ReadWeights(in + "state-00002-of-00002.safetensors"));
  EXPECT_EQ(states->Find("step")->GetInt(0), 4 * 100 + 3000);
}

TEST(Checkpoint, ReplicasAreWrittenOnce) {
  ScratchFolder folder("checkpoint");
  auto results = OnRanks(4, {}, [&](Communicator& world) -> absl::Status {
    ASYRA_ASSIGN_OR_RETURN(
        auto writer,
        CheckpointWriter::Create(folder.path(), Values(), kFour, &world));
    std::string asked;
    ASYRA_RETURN_IF_ERROR(
        writer->Save({.step = 1}, [&](const CheckpointValue& value) {
          asked += value.name + " ";
          return Shard(WholeOf(value, 1), value.type, kFour, world.rank());
        }));
    const std::string expected[] = {"w table scale w.m step none ",
                                    "w table w.m ", "w w.m ", "w w.m "};
    EXPECT_EQ(asked, expected[world.rank()]) << "rank " << world.rank();
    return writer->Finish();
  });
  for (const absl::Status& result : results) EXPECT_TRUE(result.ok()) << result;
}

TEST(Checkpoint, TheNewestStay) {
  ScratchFolder folder("checkpoint");
  WriteOnFour(folder.path(), {1, 2, 30, 4, 5}, {.keep = 2});
  // What is new stays, whatever else there is.
  EXPECT_THAT(folder.Names(), ElementsAre("step-00000005", "step-00000030"));
  // The same step again takes the other's place.
  WriteOnFour(folder.path(), {5}, {.keep = 0});
  EXPECT_THAT(folder.Names(), ElementsAre("step-00000005", "step-00000030"));
}

TEST(Checkpoint, WhatIsNotCompleteIsNotOne) {
  ScratchFolder folder("checkpoint");
  EXPECT_EQ(ASYRA_VALUE(NewestCheckpoint(folder.path(), nullptr)), "");
  EXPECT_EQ(ASYRA_VALUE(NewestCheckpoint(folder.path() + "/no", nullptr)), "");
  WriteOnFour(folder.path(), {1});
  for (const char* name :
       {"step-00000002.partial-0123", "step-00000003.removed", "step-4", "x"}) {
    std::filesystem::create_directory(folder.path() + "/" + name);
  }
  EXPECT_EQ(ASYRA_VALUE(NewestCheckpoint(folder.path(), nullptr)),
            folder.path() + "/step-00000001");
  // The next writer removes what is a checkpoint's, and nothing else.
  WriteOnFour(folder.path(), {});
  EXPECT_THAT(folder.Names(), ElementsAre("step-00000001", "step-4", "x"));
}

TEST(Checkpoint, LargeStepsAreInOrder) {
  ScratchFolder folder("checkpoint");
  for (const char* name : {"step-99999999", "step-100000000"}) {
    std::filesystem::create_directory(folder.path() + "/" + name);
  }
  EXPECT_EQ(ASYRA_VALUE(NewestCheckpoint(folder.path(), nullptr)),
            folder.path() + "/step-100000000");
}

TEST(Checkpoint, AnotherModelIsRefusedByName) {
  ScratchFolder folder("checkpoint");
  WriteOnFour(folder.path(), {1});
  std::string at = folder.path() + "/step-00000001";
  Checkpoint checkpoint = ASYRA_VALUE(Checkpoint::Open(at));
  auto error = [&](const std::vector<CheckpointValue>& values,
                   std::string_view hash = "") {
    return std::string(MessageOf(checkpoint.CheckFits(values, hash)));
  };
  auto values = Values();
  values[0].stored = {8, 5};
  EXPECT_EQ(error(values), at + ": w is f32[8,6] in it, the program has "
                                "f32[8,5]");
  values = Values();
  values[2].type.dtype = DType::kF16;
  EXPECT_EQ(error(values),
            at + ": scale is bf16[4] in it, the program has f16[4]");
  values = Values();
  values.push_back({"bias", TypeOf(DType::kF32, {{4, {}}}), {4}, true});
  EXPECT_EQ(error(values),
            at + ": it has no bias, which the program has as f32[4]");
  values = Values();
  values.erase(values.begin() + 3);
  EXPECT_EQ(error(values),
            at + ": it has w.m as f64[8,6], which the program does not have");
  EXPECT_EQ(error(Values(), "abd"),
            at + ": it is of the program abc, this one is abd");
  EXPECT_EQ(error(Values(), "abc"), "");
}

class DamagedCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteOnFour(folder_.path(), {1});
    at_ = folder_.path() + "/step-00000001/";
  }
  // Of opening it, and of reading its data as two ranks.
  std::string Error() {
    auto opened = Checkpoint::Open(folder_.path() + "/step-00000001");
    absl::Status status = opened.status();
    for (int64_t rank : {0, 1}) {
      if (status.ok()) status = opened->CheckData(rank, 2);
    }
    return status.ok() ? "no error" : std::string(MessageOf(status));
  }
  void Overwrite(const std::string& name, int64_t offset,
                 const std::string& bytes) {
    std::fstream file(at_ + name,
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset);
    file << bytes;
    ASSERT_TRUE(file.good());
  }
  ScratchFolder folder_{"damaged"};
  std::string at_;
};

TEST_F(DamagedCheckpoint, AMissingFileIsNamed) {
  for (const char* name : {"state-00001-of-00002.safetensors",
                           "model.safetensors.index.json", "checkpoint.json"}) {
    std::filesystem::rename(at_ + name, at_ + "away");
    EXPECT_THAT(Error(), HasSubstr(at_ + name + ": No such file")) << name;
    std::filesystem::rename(at_ + "away", at_ + name);
  }
  EXPECT_EQ(Error(), "no error");
}

TEST_F(DamagedCheckpoint, ATruncatedFileIsNamedWithBothSizes) {
  std::string path = at_ + "model-00002-of-00002.safetensors";
  auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  std::filesystem::resize_file(path, size - 1);
  EXPECT_EQ(Error(),
            fmt::format("{}: it has {} bytes, the checkpoint was written with "
                        "{}",
                        path, size - 1, size));
}

TEST_F(DamagedCheckpoint, ACorruptHeaderIsNamed) {
  std::string name = "state-00002-of-00002.safetensors";
  Overwrite(name, 9, "\xff");
  EXPECT_THAT(Error(), HasSubstr(at_ + name));
  Overwrite(name, 0, std::string(8, '\x7f'));
  EXPECT_THAT(Error(), HasSubstr(at_ + name + ": a header of"));
}

TEST_F(DamagedCheckpoint, ATensorThatIsNotThereIsNamed) {
  std::string index = "model.safetensors.index.json";
  std::string text = ASYRA_VALUE(ReadFile(at_ + index));
  Overwrite(index, static_cast<int64_t>(text.find("\"scale\"")), "\"scald\"");
  EXPECT_THAT(Error(), HasSubstr("it has no tensor scald"));
}

TEST_F(DamagedCheckpoint, AFlippedBitIsNamedWithItsTensor) {
  for (const CheckpointValue& value : Values()) {
    Checkpoint checkpoint =
        ASYRA_VALUE(Checkpoint::Open(folder_.path() + "/step-00000001"));
    std::string data(reinterpret_cast<const char*>(
                         checkpoint.tensors().Find(value.name)->data()),
                     checkpoint.tensors().Find(value.name)->bytes());
    if (data.empty()) continue;
    std::string index = ASYRA_VALUE(
        ReadFile(at_ + IndexName(value.is_param ? "model" : "state")));
    std::string file = nlohmann::json::parse(index)["weight_map"][value.name];
    auto at =
        static_cast<int64_t>(ASYRA_VALUE(ReadFile(at_ + file)).find(data));
    data.back() = static_cast<char>(data.back() ^ 0x10);
    Overwrite(file, at, data);
    EXPECT_THAT(Error(), HasSubstr(at_ + file + ": the data of tensor " +
                                   value.name + " has changed: its checksum "));
    data.back() = static_cast<char>(data.back() ^ 0x10);
    Overwrite(file, at, data);
    EXPECT_EQ(Error(), "no error");
  }
}

TEST_F(DamagedCheckpoint, AnotherStepThanWasWrittenIsNoticed) {
  std::string text = ASYRA_VALUE(ReadFile(at_ + "checkpoint.json"));
  Overwrite("checkpoint.json", static_cast<int64_t>(text.find("\"step\": 1")),
            "\"step\": 3");
  EXPECT_THAT(Error(), HasSubstr(at_ + "checkpoint.json: its checksum is "));
}

// Checkpoints of before there were checksums are read as they are.
TEST_F(DamagedCheckpoint, WithoutChecksumsNothingIsCompared) {
  std::string path = at_ + "checkpoint.json";
  auto json = nlohmann::json::parse(ASYRA_VALUE(ReadFile(path)));
  nlohmann::json older = json;
  older.erase("crc32");
  older.erase("own_crc32");
  ASSERT_TRUE(WriteFileAtomically(path, {older.dump()}).ok());
  EXPECT_EQ(Error(), "no error");
  older["crc32"] = json["crc32"];
  older["crc32"].erase("w.m");
  ASSERT_TRUE(WriteFileAtomically(path, {older.dump()}).ok());
  EXPECT_THAT(Error(), HasSubstr("has no checksum of its tensor w.m"));
}

TEST_F(DamagedCheckpoint, ALaterFormatIsRefused) {
  std::string text = ASYRA_VALUE(ReadFile(at_ + "checkpoint.json"));
  Overwrite("checkpoint.json", static_cast<int64_t>(text.find("\"format\": 1")),
            "\"format\": 9");
  EXPECT_EQ(Error(),
            at_ + "checkpoint.json: format 9 of a checkpoint, known is 1");
  ASSERT_TRUE(WriteFileAtomically(at_ + "checkpoint.json", {"[1]"}).ok());
  EXPECT_EQ(Error(), at_ + "checkpoint.json: it is no JSON object");
}

TEST(CheckpointValues, StatesOfPaddedParamsAreStoredWithoutPadding) {
  Program program = ASYRA_VALUE(ParseProgram(R"(asyra 1 local
mesh (tp=2)
program @p(%x: f32[4], %t: f32[4@tp] param padded from [3], %t.m: f32[4@tp] state,
    %step: i64[] state) -> (f32[4@tp]) {
  return %t
}
)"));
  auto values = CheckpointValuesOf(program);
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(values[0].name, "t");
  EXPECT_TRUE(values[0].is_param);
  EXPECT_EQ(values[0].stored, Shape({3}));
  EXPECT_EQ(values[1].stored, Shape({3}));
  EXPECT_FALSE(values[1].is_param);
  EXPECT_EQ(values[2].stored, Shape({}));
}

TEST(CheckpointWriter, RanksThatDifferAreRefused) {
  ScratchFolder folder("checkpoint");
  auto results = OnRanks(4, {}, [&](Communicator& world) {
    auto values = Values();
    if (world.rank() == 2) values[0].name = "other";
    return CheckpointWriter::Create(folder.path(), values, kFour, &world)
        .status();
  });
  ExpectAll(results, "ranks do not agree on the values of checkpoints");
  auto partial = Values();
  partial[0].type.dims[0].axes = {};
  partial[0].type.partial = {kDp};
  results = OnRanks(4, {}, [&](Communicator& world) {
    return CheckpointWriter::Create(folder.path(), partial, kFour, &world)
        .status();
  });
  ExpectAll(results, "%w is partial");
  results = OnRanks(2, {}, [&](Communicator& world) {
    return CheckpointWriter::Create(folder.path(), Values(), kFour, &world)
        .status();
  });
  ExpectAll(results, "of 4 devices, (dp=2, tp=2), the world has 2");
}

}  // namespace
}  // namespace asyra
