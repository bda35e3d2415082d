// What the tests of checkpoints save: values whose elements say where they are.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "executor/train/checkpoint_writer.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "ir/tensor.h"

namespace asyra {

// An empty folder, as long as a test.
class ScratchFolder {
 public:
  explicit ScratchFolder(std::string_view name)
      : path_((std::filesystem::path(::testing::TempDir()) /
               fmt::format("{}_{}", ::getpid(), name))
                  .string()) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }
  // Names of what is in it, in order.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      std::string name = entry.path().filename().string();
      if (name != ".asyra-lock") names.push_back(std::move(name));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string path_;
};

inline Mesh MeshOf(std::vector<Mesh::Axis> axes) {
  return ASYRA_VALUE(Mesh::Create(std::move(axes)));
}

inline Type TypeOf(DType dtype,
                   std::vector<std::pair<int64_t, AxisList>> dims) {
  Type type;
  type.dtype = dtype;
  for (const auto& [size, axes] : dims) type.dims.push_back({size, axes});
  return type;
}

// `stored` at the beginning of a tensor of zeros.
inline Tensor Padded(const Tensor& stored, const Shape& shape) {
  Tensor padded(stored.dtype(), shape);
  for (int64_t i = 0; i < stored.num_elements(); ++i) {
    int64_t at = 0, rest = i, stride = 1;
    for (int d = stored.rank() - 1; d >= 0; --d) {
      at += rest % stored.size(d) * stride;
      rest /= stored.size(d);
      stride *= shape[d];
    }
    padded.Set(at, stored.Get(i));
  }
  return padded;
}

// The whole of a value at a step; no two elements, values or steps agree, as
// far as the element type allows.
inline Tensor WholeOf(const CheckpointValue& value, int64_t step) {
  Tensor stored(value.type.dtype, value.stored);
  double begin = static_cast<double>(value.name.size() * 100 + step * 1000);
  for (int64_t i = 0; i < stored.num_elements(); ++i) {
    stored.Set(i, begin + static_cast<double>(i));
  }
  return Padded(stored, value.type.shape());
}

// Save of one rank whose values are those of WholeOf.
inline absl::Status SaveStep(CheckpointWriter& writer, const Mesh& mesh,
                             int64_t rank, int64_t step,
                             CheckpointInfo info = {}) {
  info.step = step;
  return writer.Save(
      info, [&](const CheckpointValue& value) -> absl::StatusOr<Tensor> {
        return Shard(WholeOf(value, step), value.type, mesh, rank);
      });
}

// Expects that the checkpoint is the one of `step`, for every device of `mesh`.
inline void ExpectHolds(const Checkpoint& checkpoint,
                        const std::vector<CheckpointValue>& values,
                        const Mesh& mesh, int64_t step) {
  EXPECT_EQ(checkpoint.info().step, step);
  for (const CheckpointValue& value : values) {
    for (int64_t device = 0; device < mesh.num_devices(); ++device) {
      Tensor part = ASYRA_VALUE(checkpoint.Read(value, mesh, device));
      Tensor expected = Shard(WholeOf(value, step), value.type, mesh, device);
      EXPECT_TRUE(SameBytes(part, expected))
          << value.name << " of device " << device << ", step " << step;
    }
  }
}

}  // namespace asyra
