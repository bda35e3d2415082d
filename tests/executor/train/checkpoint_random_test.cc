// Checkpoints of random values on random meshes, read on others; and files with
// random damage.
#include <fstream>
#include <random>

#include "executor/train/checkpoint_writer.h"
#include "ir/support/file.h"
#include "tests/executor/ranks.h"
#include "tests/executor/train/checkpoint_case.h"
#include "tests/support/sanitized.h"

namespace asyra {
namespace {

class RandomValues {
 public:
  explicit RandomValues(uint32_t seed) : random_(seed) {}

  int64_t UpTo(int64_t most) {  // 0 to `most`
    return static_cast<int64_t>(random_() % (most + 1));
  }

  Mesh NextMesh() {
    static constexpr const char* kNames[] = {"dp", "tp", "sp"};
    std::vector<Mesh::Axis> axes;
    for (int64_t i = 0, count = UpTo(3); i < count; ++i) {
      axes.push_back({kNames[i], 1 + UpTo(1)});
    }
    return MeshOf(axes);
  }

  // Element types and what is stored; the types' shapes follow from a mesh.
  std::vector<CheckpointValue> NextValues() {
    std::vector<CheckpointValue> values;
    for (int64_t i = 0, count = 1 + UpTo(5); i < count; ++i) {
      CheckpointValue value;
      value.name = std::string(i + 1, 'v');
      value.type.dtype = kAllDTypes[UpTo(std::size(kAllDTypes) - 1)];
      value.is_param = UpTo(1) == 0;
      for (int64_t d = 0, rank = UpTo(3); d < rank; ++d) {
        value.stored.push_back(UpTo(9));
      }
      values.push_back(value);
    }
    return values;
  }

  // Cuts dimensions over the mesh, padded to what it divides.
  std::vector<CheckpointValue> On(const Mesh& mesh,
                                  std::vector<CheckpointValue> values) {
    for (CheckpointValue& value : values) {
      value.type.dims.clear();
      for (int64_t size : value.stored) value.type.dims.push_back({size, {}});
      for (AxisId axis = 0; axis < mesh.num_axes(); ++axis) {
        int64_t dim = UpTo(value.type.rank());
        if (dim < value.type.rank()) value.type.dims[dim].axes.push_back(axis);
      }
      for (Dim& dim : value.type.dims) {
        int64_t parts = mesh.size(dim.axes);
        dim.size = (dim.size + parts - 1) / parts * parts;
      }
    }
    return values;
  }

 private:
  std::mt19937 random_;
};

TEST(RandomCheckpoints, AreTheSameOnEveryMesh) {
  for (uint32_t seed = 0; seed < (kSanitized ? 20 : 60); ++seed) {
    ScratchFolder folder("random");
    RandomValues random(seed);
    auto values = random.NextValues();
    Mesh mesh = random.NextMesh();
    auto here = random.On(mesh, values);
    int64_t max_file_bytes = 1 + random.UpTo(500);
    auto results = OnRanks(
        mesh.num_devices(), {}, [&](Communicator& world) -> absl::Status {
          ASYRA_ASSIGN_OR_RETURN(
              auto writer,
              CheckpointWriter::Create(folder.path(), here, mesh, &world,
                                       {.max_file_bytes = max_file_bytes}));
          ASYRA_RETURN_IF_ERROR(SaveStep(*writer, mesh, world.rank(), 1));
          return writer->Finish();
        });
    for (const absl::Status& result : results) {
      ASSERT_TRUE(result.ok()) << "seed " << seed << ": " << result;
    }
    Checkpoint checkpoint =
        ASYRA_VALUE(Checkpoint::Open(folder.path() + "/step-00000001"));
    for (int i = 0; i < 3; ++i) {
      Mesh other = random.NextMesh();
      auto there = random.On(other, values);
      ASYRA_CHECK_OK(checkpoint.CheckFits(there, ""));
      // What is stored is the same, whatever the padding.
      for (size_t v = 0; v < values.size(); ++v) {
        Tensor stored = *checkpoint.tensors().Find(values[v].name);
        for (int64_t device = 0; device < other.num_devices(); ++device) {
          Tensor part = ASYRA_VALUE(checkpoint.Read(there[v], other, device));
          Tensor padded = Padded(stored, there[v].type.shape());
          EXPECT_TRUE(
              SameBytes(part, Shard(padded, there[v].type, other, device)))
              << "seed " << seed << ", " << values[v].name;
        }
      }
    }
    ExpectHolds(checkpoint, here, mesh, 1);
    if (HasFailure()) return;
  }
}

// Whatever is damaged: an error, or the content that was written (of a space
// or of metadata), never a crash.
TEST(RandomCheckpoints, DamageIsNoticed) {
  ScratchFolder folder("random");
  const Mesh one = MeshOf({{"dp", 1}});
  std::vector<CheckpointValue> values = {
      {"w", TypeOf(DType::kF32, {{8, {}}, {6, {}}}), {8, 6}, true},
      {"w.m", TypeOf(DType::kF64, {{8, {}}, {6, {}}}), {8, 6}},
      {"step", TypeOf(DType::kI64, {}), {}}};
  auto writer = ASYRA_VALUE(
      CheckpointWriter::Create(folder.path(), values, one, nullptr));
  ASYRA_CHECK_OK(SaveStep(*writer, one, 0, 1));
  ASYRA_CHECK_OK(writer->Finish());
  std::string at = folder.path() + "/step-00000001";
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(at)) {
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  std::mt19937 random(1);
  int refused = 0, rounds = kSanitized ? 200 : 1000;
  for (int round = 0; round < rounds; ++round) {
    const std::string& path = files[random() % files.size()];
    std::string whole = ASYRA_VALUE(ReadFile(path)), damaged = whole;
    switch (random() % 3) {
      case 0:
        damaged.resize(random() % damaged.size());
        break;
      case 1:
        damaged[random() % damaged.size()] = static_cast<char>(random());
        break;
      default:
        damaged.erase(random() % damaged.size(), 1 + random() % 9);
        break;
    }
    ASYRA_CHECK_OK(WriteFileAtomically(path, {damaged}));
    absl::StatusOr<Checkpoint> opened = Checkpoint::Open(at);
    if (opened.ok() && opened->CheckFits(values, "").ok() &&
        opened->CheckData(0, 1).ok()) {
      ExpectHolds(*opened, values, one, 1);
      ASSERT_FALSE(HasFailure()) << path << ", round " << round;
    } else {
      ++refused;
      if (!opened.ok()) {
        EXPECT_NE(MessageOf(opened.status()).find(at), std::string::npos)
            << opened.status();
      }
    }
    ASYRA_CHECK_OK(WriteFileAtomically(path, {whole}));
  }
  EXPECT_GT(refused, rounds / 2);
  ExpectHolds(ASYRA_VALUE(Checkpoint::Open(at)), values, one, 1);
}

}  // namespace
}  // namespace asyra
