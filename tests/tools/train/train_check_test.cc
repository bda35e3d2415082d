#include "tools/train/train_check.h"

#include <cmath>
#include <cstring>

#include "gmock/gmock.h"
#include "ir/support/status.h"
#include "nlohmann/json.hpp"
#include "tests/tools/scratch_file.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Tensors = std::map<std::string, Tensor>;

Tensor Counting(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.Set(i, static_cast<double>(i));
  }
  return tensor;
}

// Two steps of one row of three tokens.
Tensors Good() {
  return {{"ids", Counting(DType::kI64, {2, 1, 3})},
          {"labels", Counting(DType::kI64, {2, 1, 3})},
          {"logits_after", Counting(DType::kF32, {1, 3, 5})},
          {"rate", Counting(DType::kF64, {2})},
          {"loss", Counting(DType::kF64, {2})},
          {"norm", Counting(DType::kF64, {2})}};
}

// A safetensors file of the tensors, with `hyper` in its metadata.
std::string Bytes(const Tensors& tensors, const std::string& hyper) {
  nlohmann::ordered_json header;
  if (!hyper.empty()) header["__metadata__"]["hyper"] = hyper;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const char* types[] = {"I64", "F32", "F64"};
    const char* type = tensor.dtype() == DType::kI64   ? types[0]
                       : tensor.dtype() == DType::kF32 ? types[1]
                                                       : types[2];
    size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.data()), tensor.bytes());
    header[name] = {{"dtype", type},
                    {"shape", tensor.shape()},
                    {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + text + data;
}

absl::StatusOr<RecordedRun> Read(const Tensors& tensors,
                                 const std::string& hyper,
                                 TrainOptions* train) {
  ScratchFile file("training.safetensors", Bytes(tensors, hyper));
  return ReadRecordedRun(file.path(), train);
}

std::string ErrorOf(const Tensors& tensors, const std::string& hyper = "") {
  TrainOptions train;
  auto run = Read(tensors, hyper, &train);
  return run.ok() ? "no error" : std::string(MessageOf(run.status()));
}

TEST(ReadRecordedRun, HasTensorsAndBatches) {
  TrainOptions train;
  RecordedRun run = ASYRA_VALUE(Read(Good(), "", &train));
  EXPECT_EQ(run.steps(), 2);
  EXPECT_THAT(run.loss, ElementsAre(0, 1));
  Tensor batch = run.Batch(run.ids, 1);
  EXPECT_EQ(batch.shape(), (Shape{1, 3}));
  EXPECT_THAT(batch.ToInts(), ElementsAre(3, 4, 5));
}

TEST(ReadRecordedRun, TakesTheOptimizerOfTheFile) {
  TrainOptions train;
  ASYRA_CHECK_OK(Read(Good(),
                      R"({"optimizer": "sgd", "beta1": 0.5, "beta2": 0.25,
                          "epsilon": 1e-3, "momentum": 0.75, "decay": 0.5,
                          "clip": 2, "decay_of": "rank>=2"})",
                      &train)
                     .status());
  EXPECT_EQ(train.optimizer, "sgd");
  EXPECT_EQ(train.beta1, 0.5);
  EXPECT_EQ(train.beta2, 0.25);
  EXPECT_EQ(train.eps, 1e-3);
  EXPECT_EQ(train.momentum, 0.75);
  EXPECT_EQ(train.decay, 0.5);
  EXPECT_EQ(train.clip, 2);
  // What it does not say stays.
  train.decay = 0.125;
  ASYRA_CHECK_OK(Read(Good(), "{}", &train).status());
  EXPECT_EQ(train.decay, 0.125);
  EXPECT_EQ(train.optimizer, "sgd");
}

TEST(ReadRecordedRun, RefusesNumbersThatAreNone) {
  EXPECT_THAT(ErrorOf(Good(), "{"), HasSubstr("hyper is no JSON object"));
  EXPECT_THAT(ErrorOf(Good(), "[1]"), HasSubstr("hyper is no JSON object"));
  EXPECT_THAT(ErrorOf(Good(), R"({"clip": "much"})"),
              HasSubstr("hyper: clip is no number"));
  EXPECT_THAT(ErrorOf(Good(), R"({"optimizer": 3})"),
              HasSubstr("hyper: optimizer is no text"));
  EXPECT_THAT(ErrorOf(Good(), R"({"optimizer": "lion"})"),
              HasSubstr("optimizer is 'lion', known are adamw and sgd"));
  EXPECT_THAT(ErrorOf(Good(), R"({"decay_of": "all"})"),
              HasSubstr("decay_of is 'all', known is 'rank>=2'"));
}

TEST(ReadRecordedRun, NamesWhatIsMissing) {
  for (const auto& [name, tensor] : Good()) {
    Tensors tensors = Good();
    tensors.erase(name);
    EXPECT_THAT(ErrorOf(tensors), HasSubstr("no tensor " + name));
  }
}

TEST(ReadRecordedRun, RefusesOtherSizes) {
  Tensors tensors = Good();
  tensors["ids"] = Counting(DType::kI64, {2, 3});
  EXPECT_THAT(ErrorOf(tensors), HasSubstr("ids has rank 2, it should be 3"));
  tensors = Good();
  tensors["norm"] = Counting(DType::kF64, {3});
  EXPECT_THAT(ErrorOf(tensors), HasSubstr("norm has 3 numbers for 2 steps"));
  tensors = Good();
  tensors["labels"] = Counting(DType::kI64, {1, 1, 3});
  EXPECT_THAT(ErrorOf(tensors),
              HasSubstr("labels has shape [1,1,3], ids [2,1,3]"));
  tensors = Good();
  tensors["logits_after"] = Counting(DType::kF32, {1, 2, 5});
  EXPECT_THAT(ErrorOf(tensors),
              HasSubstr("logits_after has shape [1,2,5], ids [2,1,3]"));
}

TEST(RelativeError, IsOfTheSecond) {
  EXPECT_EQ(RelativeError(3, 2), 0.5);
  EXPECT_EQ(RelativeError(0, 0), 0);
  EXPECT_TRUE(std::isinf(RelativeError(1, 0)));
  EXPECT_TRUE(std::isnan(RelativeError(NAN, 1)));
}

TEST(Worse, KeepsWhatIsNoNumber) {
  EXPECT_EQ(Worse(1, 2), 2);
  EXPECT_EQ(Worse(2, 1), 2);
  EXPECT_TRUE(std::isnan(Worse(NAN, 1)));
  EXPECT_TRUE(std::isnan(Worse(1, NAN)));
}

TEST(ErrorOfLargest, IsOfTheLargestAndSeesWhatIsNoNumber) {
  auto tensor = [](const std::vector<double>& x) {
    return Tensor::FromDoubles(DType::kF64, {2}, x);
  };
  EXPECT_EQ(ASYRA_VALUE(ErrorOfLargest(tensor({1, 5}), tensor({2, 4}))), 0.25);
  EXPECT_EQ(ASYRA_VALUE(ErrorOfLargest(tensor({1, 5}), tensor({2, 4}), 8)),
            0.125);
  EXPECT_TRUE(std::isnan(
      ASYRA_VALUE(ErrorOfLargest(tensor({NAN, 5}), tensor({2, 4})))));
  EXPECT_EQ(ASYRA_VALUE(ErrorOfLargest(tensor({0, 0}), tensor({0, 0}))), 0);
  EXPECT_THAT(
      std::string(MessageOf(
          ErrorOfLargest(tensor({0, 0}), Tensor(DType::kF64, {3})).status())),
      HasSubstr("2 elements are compared with 3"));
}

}  // namespace
}  // namespace asyra
