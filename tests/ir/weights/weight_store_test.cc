#include "ir/weights/weight_store.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/file.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class WeightFile : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::path(::testing::TempDir()) /
           ("weights" + std::to_string(::getpid()));
    std::filesystem::create_directory(dir_);
    path_ = (dir_ / "w.safetensors").string();
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // The message of reading a file made of `header` and `data_bytes` zeros.
  std::string ErrorOf(const std::string& header, size_t data_bytes) {
    uint64_t length = header.size();
    std::string prefix(reinterpret_cast<const char*>(&length), sizeof(length));
    return ErrorOfBytes(prefix + header + std::string(data_bytes, '\0'));
  }
  std::string ErrorOfBytes(std::string_view bytes) {
    absl::Status written = WriteFileAtomically(path_, {bytes});
    EXPECT_TRUE(written.ok()) << written;
    auto weights = ReadWeights(path_);
    if (weights.ok()) return "no error";
    std::string message(MessageOf(weights.status()));
    EXPECT_THAT(message, HasSubstr(path_));
    return message;
  }

  std::filesystem::path dir_;
  std::string path_;
};

TEST_F(WeightFile, EveryElementTypeComesBack) {
  WeightStore weights;
  for (DType dtype : kAllDTypes) {
    weights.Set(std::string(ToString(dtype)),
                Tensor::FromInts(dtype, {3}, {0, 1, 1}));
  }
  weights.Set("scalar", Tensor::FromDoubles(DType::kF64, {}, {-0.0}));
  weights.Set("empty", Tensor(DType::kF32, {4, 0}));
  weights.Set("naïve \"name\"\n", Tensor(DType::kBF16, {1, 1}));
  ASSERT_TRUE(WriteWeights(weights, path_).ok());
  auto read = ReadWeights(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)->size(), weights.size());
  for (const auto& [name, tensor] : weights) {
    const Tensor* back = (*read)->Find(name);
    ASSERT_NE(back, nullptr) << name;
    EXPECT_TRUE(SameBytes(*back, tensor)) << name;
  }
  EXPECT_EQ((*read)->Find("other"), nullptr);
}

TEST_F(WeightFile, TensorsAreAlignedViewsThatOutliveTheStore) {
  WeightStore weights;
  weights.Set("a", Tensor::FromInts(DType::kBool, {1}, {1}));
  weights.Set("b", Tensor::FromDoubles(DType::kF64, {2}, {1.5, 2.5}));
  ASSERT_TRUE(WriteWeights(weights, path_).ok());
  Tensor b;
  {
    auto read = ReadWeights(path_);
    ASSERT_TRUE(read.ok()) << read.status();
    b = *(*read)->Find("b");
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data()) % 8, 0u);
  EXPECT_EQ(b.Get(1), 2.5);
}

TEST_F(WeightFile, WritingReplacesTheFileAndLeavesNoOther) {
  WeightStore weights;
  weights.Set("a", Tensor(DType::kF32, {1}));
  ASSERT_TRUE(WriteWeights(weights, path_).ok());
  auto old = ReadWeights(path_);
  weights.Set("b", Tensor(DType::kF32, {1}));
  ASSERT_TRUE(WriteWeights(weights, path_).ok());
  EXPECT_EQ((*old)->Find("a")->Get(0), 0);  // still mapped
  EXPECT_EQ((*ReadWeights(path_))->size(), 2u);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
    files += entry.is_regular_file();
  }
  EXPECT_EQ(files, 1);
}

TEST_F(WeightFile, MissingFilesAndFoldersAreErrors) {
  std::string missing = (dir_ / "none").string();
  EXPECT_EQ(ReadWeights(missing).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(MessageOf(ReadWeights(dir_).status())),
              HasSubstr("not a regular file"));
  absl::Status status = WriteWeights({}, missing + "/w.safetensors");
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("No such file"));
}

TEST_F(WeightFile, NamesMustBeUtf8) {
  WeightStore weights;
  weights.Set("\xff", Tensor(DType::kF32, {1}));
  EXPECT_THAT(std::string(MessageOf(WriteWeights(weights, path_))),
              HasSubstr("not UTF-8"));
}

TEST_F(WeightFile, HeadersThatAreNoneAreErrors) {
  EXPECT_THAT(ErrorOfBytes(""), HasSubstr("0 bytes are too short"));
  EXPECT_THAT(ErrorOfBytes("1234567"), HasSubstr("7 bytes are too short"));
  EXPECT_THAT(ErrorOfBytes(std::string(16, '\xff')),
              HasSubstr("a header of 18446744073709551615 bytes, the file "
                        "holds 8 after its length"));
  for (const char* header : {"{\"a\":", "", "[]"}) {
    EXPECT_THAT(ErrorOf(header, 0),
                HasSubstr("the header: it is no JSON object"));
  }
}

TEST_F(WeightFile, EntriesThatLieAreErrors) {
  auto entry = [&](std::string dtype, std::string shape, std::string offsets) {
    return ErrorOf(R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape +
                       R"(,"data_offsets":)" + offsets + "}}",
                   16);
  };
  EXPECT_EQ(entry("\"F32\"", "[4]", "[0,16]"), "no error");
  EXPECT_THAT(ErrorOf(R"({"w":3})", 0),
              AllOf(HasSubstr("tensor w"), HasSubstr("not an object")));
  EXPECT_THAT(ErrorOf(R"({"w":{}})", 0), HasSubstr("dtype is missing"));
  EXPECT_THAT(entry("\"F8_E4M3\"", "[4]", "[0,16]"),
              HasSubstr("unknown element type F8_E4M3"));
  EXPECT_THAT(entry("\"F32\"", "4", "[0,16]"),
              HasSubstr("shape is not a list"));
  EXPECT_THAT(entry("\"F32\"", "[-4]", "[0,16]"), HasSubstr("shape holds -4"));
  EXPECT_THAT(entry("\"F32\"", "[\"a\"]", "[0,16]"),
              HasSubstr("shape holds \"a\""));
  EXPECT_THAT(entry("\"F32\"", "[4]", "[0]"), HasSubstr("begin and an end"));
  EXPECT_THAT(entry("\"F32\"", "[4]", "[16,0]"), HasSubstr("begin and an end"));
  EXPECT_THAT(entry("\"F32\"", "[4]", "[4,20]"),
              HasSubstr("ends at byte 20, the file holds 16"));
  EXPECT_THAT(entry("\"F32\"", "[3]", "[0,16]"),
              HasSubstr("F32[3] has 12 bytes, data_offsets span 16"));
  EXPECT_THAT(entry("\"F32\"", "[9223372036854775807,4]", "[0,16]"),
              HasSubstr("more than 2^63 bytes"));
}

TEST_F(WeightFile, NamesThatComeTwiceAreErrors) {
  const std::string a = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})",
                    b = R"({"dtype":"F32","shape":[2],"data_offsets":[8,16]})";
  EXPECT_EQ(ErrorOf("{\"v\":" + a + ",\"w\":" + b + "}", 16), "no error");
  EXPECT_EQ(ErrorOf("{\"w\":" + a + ",\"w\":" + b + "}", 16),
            path_ + ": the header: \"w\" is named twice");
  EXPECT_EQ(ErrorOf(R"({"v":{"dtype":"F32","shape":[1],"dtype":"F64"}})", 0),
            path_ + ": the header: \"v\" / \"dtype\" is named twice");
  EXPECT_EQ(ErrorOf(R"({"__metadata__":{"a":"1","b":"2","a":"1"}})", 0),
            path_ + ": the header: \"__metadata__\" / \"a\" is named twice");
  // Equal names of different objects.
  EXPECT_EQ(ErrorOf(R"({"__metadata__":{"w":"1"},"w":)" + a + "}", 8),
            "no error");
}

TEST_F(WeightFile, EachByteOfTheDataIsOfOneTensor) {
  auto entry = [](const std::string& name, int begin, int end) {
    return fmt::format(
        R"("{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", name,
        (end - begin) / 4, begin, end);
  };
  auto error = [&](const std::string& a, const std::string& b, size_t bytes) {
    return ErrorOf("{" + a + "," + b + "}", bytes);
  };
  EXPECT_EQ(error(entry("b", 0, 8), entry("a", 8, 16), 16), "no error");
  EXPECT_EQ(error(entry("b", 0, 16), entry("a", 16, 16), 16), "no error");
  EXPECT_EQ(error(entry("b", 0, 16), entry("a", 0, 0), 16), "no error");
  EXPECT_EQ(error(entry("a", 4, 8), entry("b", 8, 16), 16),
            path_ +
                ": tensor a: its data begins at byte 4, those from 0 on are of "
                "no tensor");
  EXPECT_EQ(error(entry("a", 0, 4), entry("b", 8, 16), 16),
            path_ +
                ": tensor b: its data begins at byte 8, those from 4 on are of "
                "no tensor");
  EXPECT_EQ(error(entry("a", 0, 12), entry("b", 8, 16), 16),
            path_ +
                ": tensor b: its data begins at byte 8, that of tensor a ends "
                "at byte 12");
  EXPECT_EQ(error(entry("a", 0, 16), entry("b", 0, 16), 16),
            path_ +
                ": tensor b: its data begins at byte 0, that of tensor a ends "
                "at byte 16");
  EXPECT_EQ(error(entry("b", 0, 4), entry("a", 4, 8), 16),
            path_ +
                ": tensor a: it is the last and ends at byte 8, the file holds "
                "16 bytes of data");
  EXPECT_EQ(ErrorOf("{}", 4), path_ + ": it has 4 bytes of data and no tensor");
}

TEST(WeightPath, SitsBesideTheProgram) {
  EXPECT_EQ(WeightPathFor("dir/model.asyra"), "dir/model.safetensors");
  EXPECT_EQ(WeightPathFor("model"), "model.safetensors");
}

}  // namespace
}  // namespace asyra
