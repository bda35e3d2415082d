#include "executor/train/token_reader.h"

#include <algorithm>
#include <set>

#include "executor/train/window_order.h"
#include "gmock/gmock.h"
#include "ir/support/file.h"
#include "tests/executor/train/checkpoint_case.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;

TEST(WindowOrder, TakesEachWindowOnce) {
  for (int64_t count : {1, 2, 3, 5, 16, 17, 1000, 4097}) {
    std::set<int64_t> seen;
    for (int64_t i = 0; i < count; ++i) {
      seen.insert(WindowOrder(count, 1, 0).At(i));
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), count);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), count - 1);
  }
}

TEST(WindowOrder, EpochsAndSeedsDiffer) {
  auto order = [](int64_t seed, int64_t epoch) {
    std::vector<int64_t> windows;
    for (int64_t i = 0; i < 100; ++i) {
      windows.push_back(WindowOrder(100, seed, epoch).At(i));
    }
    return windows;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
  EXPECT_NE(order(1, 0), order(2, 0));
}

// Each window is as often the first as any other: the counts of 20 windows over
// 20000 epochs are within five standard deviations.
TEST(WindowOrder, IsUniform) {
  constexpr int64_t kWindows = 20, kEpochs = 20000;
  for (int64_t place : {0, 7, 19}) {
    std::vector<int64_t> counts(kWindows, 0);
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      ++counts[WindowOrder(kWindows, 3, epoch).At(place)];
    }
    auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    EXPECT_GT(*least, 1000 - 5 * 31);
    EXPECT_LT(*most, 1000 + 5 * 31);
  }
}

class TokenReaderTest : public ::testing::Test {
 protected:
  // A file of `count` bytes 0, 1, ...
  std::shared_ptr<const TokenFiles> Bytes(int64_t count) {
    std::string content;
    for (int64_t i = 0; i < count; ++i) content += static_cast<char>(i);
    std::string path = folder_.path() + "/bytes";
    ASYRA_CHECK_OK(WriteFileAtomically(path, {content}));
    return std::make_shared<TokenFiles>(ASYRA_VALUE(TokenFiles::Open({path})));
  }
  std::string ErrorOf(int64_t count, const Type& type,
                      const TokenReaderOptions& options = {}) {
    auto opened = TokenReader::Open(Bytes(count), type, Mesh(), 0, options);
    return opened.ok() ? "no error" : std::string(MessageOf(opened.status()));
  }
  ScratchFolder folder_{"reader"};
};

const Type kTwoRows = TypeOf(DType::kI64, {{2, {}}, {3, {}}});

TEST_F(TokenReaderTest, DocumentsAreCounted) {
  // Each byte comes once in 256 tokens.
  auto files = Bytes(200 * 1024);
  EXPECT_EQ(ASYRA_VALUE(DocumentsOfAWindow(*files, 10, 2560)), 10);
  EXPECT_EQ(ASYRA_VALUE(DocumentsOfAWindow(*files, 10, 256)), 1);
  EXPECT_EQ(ASYRA_VALUE(DocumentsOfAWindow(*files, 10, 8)), 1);
  EXPECT_EQ(ASYRA_VALUE(DocumentsOfAWindow(*files, 1000, 2560)), 1);
  EXPECT_EQ(ASYRA_VALUE(DocumentsOfAWindow(*Bytes(5), 2, 10)), 2);
}

TEST_F(TokenReaderTest, RowsFollowEachOtherAndBeginAgain) {
  // Three windows: the next epoch begins within the second batch.
  auto reader = ASYRA_VALUE(TokenReader::Open(Bytes(12), kTwoRows, Mesh(), 0));
  EXPECT_EQ(reader->windows(), 3);
  auto batch = ASYRA_VALUE(reader->Next());
  EXPECT_EQ(batch.tokens.shape(), Shape({2, 3}));
  EXPECT_THAT(batch.tokens.ToInts(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(batch.labels.ToInts(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(reader->position(), 2);
  EXPECT_EQ(reader->epoch(), 0);
  EXPECT_THAT(ASYRA_VALUE(reader->Next()).tokens.ToInts(),
              ElementsAre(6, 7, 8, 0, 1, 2));
  EXPECT_EQ(reader->epoch(), 1);
}

TEST_F(TokenReaderTest, RanksReadTheirRowsAndColumns) {
  Mesh mesh = MeshOf({{"dp", 2}, {"tp", 2}, {"sp", 2}});
  Type type = TypeOf(DType::kI64, {{4, {0}}, {6, {2}}});
  auto files = Bytes(200);
  TokenReaderOptions options{.shuffle = true, .seed = 5};
  Type whole_type = type.Global();
  auto whole =
      ASYRA_VALUE(TokenReader::Open(files, whole_type, Mesh(), 0, options));
  std::vector<std::unique_ptr<TokenReader>> readers;
  for (int64_t device = 0; device < 8; ++device) {
    readers.push_back(
        ASYRA_VALUE(TokenReader::Open(files, type, mesh, device, options)));
  }
  for (int batch = 0; batch < 20; ++batch) {
    auto all = ASYRA_VALUE(whole->Next());
    for (int64_t device = 0; device < 8; ++device) {
      auto part = ASYRA_VALUE(readers[device]->Next());
      EXPECT_TRUE(
          SameBytes(part.tokens, Shard(all.tokens, type, mesh, device)));
      EXPECT_TRUE(
          SameBytes(part.labels, Shard(all.labels, type, mesh, device)));
    }
  }
}

TEST_F(TokenReaderTest, AnEpochTakesEachWindowOnce) {
  auto reader = ASYRA_VALUE(TokenReader::Open(Bytes(40), kTwoRows, Mesh(), 0,
                                              {.shuffle = true, .seed = 2}));
  ASSERT_EQ(reader->windows(), 13);
  std::vector<int64_t> taken;
  for (int i = 0; i < 13; ++i) {  // two epochs
    std::vector<int64_t> tokens = ASYRA_VALUE(reader->Next()).tokens.ToInts();
    taken.push_back(tokens[0] / 3);
    taken.push_back(tokens[3] / 3);
  }
  std::vector<int64_t> first(taken.begin(), taken.begin() + 13);
  std::vector<int64_t> second(taken.begin() + 13, taken.end());
  EXPECT_NE(first, second);
  for (auto* epoch : {&first, &second}) {
    EXPECT_FALSE(std::is_sorted(epoch->begin(), epoch->end()));
    std::sort(epoch->begin(), epoch->end());
    for (int64_t i = 0; i < 13; ++i) EXPECT_EQ((*epoch)[i], i);
  }
}

TEST_F(TokenReaderTest, SeekGoesOnWithTheSameBatches) {
  auto files = Bytes(200);
  TokenReaderOptions options{.shuffle = true, .prefetch = 3};
  auto reader =
      ASYRA_VALUE(TokenReader::Open(files, kTwoRows, Mesh(), 0, options));
  std::vector<Tensor> batches;
  std::vector<int64_t> positions;
  for (int i = 0; i < 50; ++i) {
    positions.push_back(reader->position());
    batches.push_back(ASYRA_VALUE(reader->Next()).tokens);
  }
  for (int at : {49, 3, 20, 21, 0}) {
    auto other =
        ASYRA_VALUE(TokenReader::Open(files, kTwoRows, Mesh(), 0, options));
    for (TokenReader* one : {reader.get(), other.get()}) {
      one->Seek(positions[at]);
      EXPECT_EQ(one->position(), positions[at]);
      for (int i = at; i < std::min(at + 3, 50); ++i) {
        EXPECT_TRUE(SameBytes(ASYRA_VALUE(one->Next()).tokens, batches[i]));
      }
    }
  }
}

TEST_F(TokenReaderTest, WindowsOfAnEvaluationAreApart) {
  auto files = Bytes(100);  // 33 windows
  auto tokens_of = [&](WindowRange windows) {
    auto reader = ASYRA_VALUE(TokenReader::Open(
        files, kTwoRows, Mesh(), 0, {.shuffle = true, .windows = windows}));
    std::set<int64_t> tokens;
    for (int64_t i = 0; i < reader->windows(); ++i) {
      for (int64_t t : ASYRA_VALUE(reader->Next()).tokens.ToInts()) {
        tokens.insert(t);
      }
    }
    return tokens;
  };
  std::set<int64_t> train = tokens_of({0, 30}), held = tokens_of({30, -1});
  EXPECT_EQ(*train.rbegin(), 89);
  EXPECT_EQ(train.size(), 90u);
  EXPECT_EQ(*held.begin(), 90);
  EXPECT_EQ(held.size(), 9u);
}

TEST_F(TokenReaderTest, ATokenThatTheModelDoesNotHaveIsAnErrorUntilSeek) {
  auto reader = ASYRA_VALUE(
      TokenReader::Open(Bytes(20), kTwoRows, Mesh(), 0, {.limit = 9}));
  ASYRA_CHECK_OK(reader->Next().status());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(MessageOf(reader->Next().status()),
              folder_.path() + "/bytes: token 9 is 9, the model has 9 of them");
    EXPECT_EQ(reader->position(), 2);
  }
  reader->Seek(0);
  EXPECT_TRUE(reader->Next().ok());
}

TEST_F(TokenReaderTest, WhatDoesNotFitIsRefusedWithItsNumbers) {
  EXPECT_EQ(ErrorOf(4, kTwoRows), "no error");
  EXPECT_EQ(ErrorOf(3, kTwoRows),
            "the data has 3 bytes, a row takes 3 and one more");
  EXPECT_EQ(ErrorOf(100, TypeOf(DType::kI64, {{2, {}}})),
            "tokens are i64[2], they should be i64[rows, length]");
  EXPECT_EQ(ErrorOf(100, TypeOf(DType::kF32, {{2, {}}, {3, {}}})),
            "tokens are f32[2, 3], they should be i64[rows, length]");
  EXPECT_EQ(ErrorOf(100, kTwoRows, {.windows = {30, 4}}),
            "windows 30 to 34 of data that has 33 of 3 tokens");
  EXPECT_EQ(ErrorOf(100, kTwoRows, {.windows = {33, -1}}),
            "windows 33 to 33 of data that has 33 of 3 tokens");
}

}  // namespace
}  // namespace asyra
