// Algorithms of cuBLASLt as text, and what they depend on; no GPU is needed.
#include "executor/cuda/gemm/gemm_algorithm.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "ir/support/status.h"
#include "tests/ir/op_case.h"

namespace asyra::cuda {
namespace {

using testing::HasSubstr;

const GemmShape kShape = {DType::kBF16, false,      true,      128, 256, 512, 3,
                          128L * 512,   256L * 512, 128L * 256};

// Every field changed, each alone.
TEST(GemmAlgorithmText, DependsOnAllThatTheShapeSays) {
  std::vector<GemmShape> shapes(10, kShape);
  shapes[0].dtype = DType::kF16;
  shapes[1].transpose_a = true;
  shapes[2].transpose_b = false;
  shapes[3].m = 129;
  shapes[4].n = 257;
  shapes[5].k = 513;
  shapes[6].batch = 4;
  shapes[7].a_stride = 0;
  shapes[8].b_stride = 0;
  shapes[9].c_stride = 0;
  shapes.push_back(kShape);
  std::vector<std::string> keys;
  for (const GemmShape& shape : shapes) keys.push_back(KeyOf(shape, "a GPU"));
  keys.push_back(KeyOf(kShape, "another GPU"));
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
}

TEST(GemmAlgorithmText, SaysWhatItDependsOn) {
  std::string key = KeyOf(kShape, "NVIDIA H200, 132 multiprocessors");
  EXPECT_THAT(key, HasSubstr("bf16 a[128, 512] b^T[512, 256] batch 3"));
  EXPECT_THAT(key, HasSubstr("aligned to 64"));
  EXPECT_THAT(key, HasSubstr(fmt::format("cuBLASLt {}", cublasLtGetVersion())));
  EXPECT_THAT(key, HasSubstr("NVIDIA H200, 132 multiprocessors"));
  EXPECT_EQ(key.find_first_of("\t\n"), std::string::npos);
}

TEST(GemmAlgorithmText, AlignmentIsThatOfOddMatrices) {
  GemmShape odd = kShape;
  odd.m = 3;
  odd.k = 5;
  EXPECT_EQ(AlignmentOf(odd), 2);
  EXPECT_EQ(AlignmentOf(kShape), 64);
}

TEST(GemmAlgorithmText, AlgorithmsAreReadAsTheyWereWritten) {
  SCOPED_TRACE(fmt::format("ASYRA_SEED={}", Seed()));
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 100; ++round) {
    GemmAlgorithm algorithm;
    algorithm.workspace_bytes = random() >> (random() % 64);
    for (uint64_t& word : algorithm.algo.data) {
      word = round == 0 ? 0 : random() >> (random() % 64);
    }
    std::optional<GemmAlgorithm> read = ParseGemmAlgorithm(ToText(algorithm));
    ASSERT_TRUE(read.has_value()) << ToText(algorithm);
    EXPECT_EQ(read->workspace_bytes, algorithm.workspace_bytes);
    EXPECT_TRUE(std::equal(std::begin(algorithm.algo.data),
                           std::end(algorithm.algo.data), read->algo.data));
  }
}

TEST(GemmAlgorithmText, WhatIsNoAlgorithmIsNone) {
  const std::string whole = ToText(GemmAlgorithm{.workspace_bytes = 33554432});
  ASSERT_TRUE(ParseGemmAlgorithm(whole).has_value());
  // Cut within the last word it would be another algorithm; the file's
  // checksum tells.
  for (size_t size = 0; size <= whole.size() - 17; ++size) {
    EXPECT_FALSE(ParseGemmAlgorithm(whole.substr(0, size)).has_value()) << size;
  }
  for (const std::string& text :
       {whole + " ", " " + whole, whole + " 0", "x" + whole,
        "-1" + whole.substr(8), "1" + whole + "g"}) {
    EXPECT_FALSE(ParseGemmAlgorithm(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace asyra::cuda
