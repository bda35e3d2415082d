#include "tools/token_file.h"

#include <cstring>

#include "gmock/gmock.h"
#include "ir/support/status.h"
#include "tests/tools/scratch_file.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file as llm.c writes it, whose header says `count` tokens.
std::string LlmC(int32_t count, const std::vector<uint16_t>& tokens,
                 int32_t version = 1, int32_t magic = 20240520) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  std::string bytes(header.size() * 4 + tokens.size() * 2, '\0');
  std::memcpy(bytes.data(), header.data(), header.size() * 4);
  if (tokens.empty()) return bytes;
  std::memcpy(bytes.data() + header.size() * 4, tokens.data(),
              tokens.size() * 2);
  return bytes;
}

TokenFile Opened(const std::string& content) {
  ScratchFile file("tokens", content);
  return ASYRA_VALUE(TokenFile::Open(file.path()));
}

std::string ErrorOf(const std::string& content) {
  ScratchFile file("tokens", content);
  auto opened = TokenFile::Open(file.path());
  if (opened.ok()) return "no error";
  std::string message(MessageOf(opened.status()));
  EXPECT_EQ(message.find(file.path()), 0u) << message;
  return message;
}

TEST(TokenFile, BytesOfAnyFileAreTokens) {
  TokenFile file = Opened("ab\xff\n");
  EXPECT_TRUE(file.is_bytes());
  EXPECT_EQ(file.size(), 4);
  EXPECT_EQ(file.largest(), 255);
  TokenFile::Batch batch = ASYRA_VALUE(file.At(0, 1, 3));
  EXPECT_EQ(batch.tokens.shape(), (Shape{1, 3}));
  EXPECT_EQ(batch.tokens.dtype(), DType::kI64);
  EXPECT_THAT(batch.tokens.ToInts(), ElementsAre('a', 'b', 255));
  EXPECT_THAT(batch.labels.ToInts(), ElementsAre('b', 255, '\n'));
}

TEST(TokenFile, LlmCTokensAre16Bits) {
  TokenFile file = Opened(LlmC(3, {50256, 1, 300}));
  EXPECT_FALSE(file.is_bytes());
  EXPECT_EQ(file.size(), 3);
  EXPECT_EQ(file.largest(), 50256);
  EXPECT_THAT(ASYRA_VALUE(file.At(0, 1, 2)).tokens.ToInts(),
              ElementsAre(50256, 1));
  // The header says where they end.
  EXPECT_EQ(Opened(LlmC(2, {1, 2, 3})).size(), 2);
}

TEST(TokenFile, ABrokenLlmCFileIsAnError) {
  EXPECT_THAT(ErrorOf(LlmC(4, {1, 2, 3})),
              HasSubstr("the header says 4 tokens, there are 3"));
  EXPECT_THAT(ErrorOf(LlmC(-1, {1, 2, 3})),
              HasSubstr("the header says -1 tokens, there are 3"));
  EXPECT_THAT(ErrorOf(LlmC(3, {1, 2, 3}, 2)),
              HasSubstr("version 2 of a token file, known is 1"));
  EXPECT_THAT(ErrorOf(LlmC(3, {}).substr(0, 100)),
              HasSubstr("it ends in the header of a token file"));
}

TEST(TokenFile, AnotherMagicIsAnyFile) {
  TokenFile file = Opened(LlmC(3, {1, 2, 3}, 1, 20240521));
  EXPECT_TRUE(file.is_bytes());
  EXPECT_EQ(file.size(), 1030);
}

TEST(TokenFile, AFileThatIsNotThereIsAnError) {
  EXPECT_THAT(
      std::string(MessageOf(TokenFile::Open("/nowhere/tokens").status())),
      HasSubstr("/nowhere/tokens"));
}

TEST(TokenFile, BatchesFollowEachOtherAndBeginAgain) {
  TokenFile file = Opened("0123456789");  // two batches of 4, one token beyond
  auto tokens = [&](int64_t batch) {
    std::string text;
    TokenFile::Batch at = ASYRA_VALUE(file.At(batch, 2, 2));
    for (int64_t token : at.tokens.ToInts()) text += static_cast<char>(token);
    text += '>';
    for (int64_t label : at.labels.ToInts()) text += static_cast<char>(label);
    return text;
  };
  EXPECT_EQ(tokens(0), "0123>1234");
  EXPECT_EQ(tokens(1), "4567>5678");
  EXPECT_EQ(tokens(2), "0123>1234");
  EXPECT_EQ(tokens(5), "4567>5678");
}

TEST(TokenFile, ALabelIsNeededForTheLastToken) {
  EXPECT_TRUE(Opened("01234").At(0, 2, 2).ok());
  EXPECT_EQ(MessageOf(Opened("0123").At(0, 2, 2).status()),
            "the data has 4 tokens, a step takes 4 and one more");
  EXPECT_EQ(MessageOf(Opened("").At(0, 2, 2).status()),
            "the data has 0 tokens, a step takes 4 and one more");
}

}  // namespace
}  // namespace asyra
