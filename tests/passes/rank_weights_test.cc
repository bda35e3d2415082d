// A rank reads its part of a model's file, not the rest of it.
#include <unistd.h>

#include <filesystem>

#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/weights/shard_reader.h"
#include "ir/weights/weight_store.h"
#include "models/models.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "simulator/cost/cost_model.h"
#include "tests/support/costs.h"
#include "tests/support/sparse_weights.h"

namespace asyra {
namespace {

// A file that counts what is read of it, and has no other way to its bytes.
class CountedFile : public ByteSource {
 public:
  explicit CountedFile(Tensor tensor) : tensor_(std::move(tensor)) {}
  absl::Status Read(int64_t offset, absl::Span<std::byte> to) const override {
    bytes_read += static_cast<int64_t>(to.size());
    return tensor_.source()->Read(offset, to);
  }
  static inline int64_t bytes_read = 0;

 private:
  Tensor tensor_;
};

TEST(RankWeights, OneRankOf16ReadsAndHoldsASixteenth) {
  Program program = ASYRA_VALUE(BuiltinModel("llama3-70b", {{"layers", 2}}));
  program.mesh = ASYRA_VALUE(Mesh::Create({{"tp", 16}}));
  CostModel costs = Costs(program);
  PassContext context;
  context.costs = &costs;
  ASYRA_CHECK_OK(RunPasses(program, ShardPasses(), context));
  std::string path = (std::filesystem::path(::testing::TempDir()) /
                      ("llama70b" + std::to_string(::getpid())))
                         .string();
  ASYRA_CHECK_OK(WriteSparseWeights(program, path));
  auto counted = std::make_shared<WeightStore>();
  std::shared_ptr<const WeightStore> mapped = ASYRA_VALUE(ReadWeights(path));
  for (const auto& [name, tensor] : *mapped) {
    counted->Set(name, Tensor::View(tensor.dtype(), tensor.shape(), nullptr,
                                    std::make_shared<CountedFile>(tensor),
                                    tensor.source_offset()));
  }
  program.weights = counted;
  int64_t whole = 0, part = 0;
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kWeight) continue;
    whole += program.type(input.value).bytes();
    part += program.type(input.value).Local(program.mesh).bytes();
  }
  EXPECT_GT(whole, int64_t{7} << 30);
  // Keys and values of 8 heads are whole on each of 16 devices.
  EXPECT_LT(part, whole / 16 * 5 / 4);

  int64_t before = ResidentBytes();
  std::vector<Tensor> shards = ASYRA_VALUE(ReadRankWeights(program, 5));
  int64_t grown = ResidentBytes() - before;
  EXPECT_EQ(CountedFile::bytes_read, part);
  EXPECT_GT(grown, part / 2);  // they are there
  EXPECT_LT(grown, part * 5 / 4);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace asyra
