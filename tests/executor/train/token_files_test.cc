#include "executor/train/token_files.h"

#include <cstring>

#include "gmock/gmock.h"
#include "ir/support/file.h"
#include "tests/executor/train/checkpoint_case.h"

namespace asyra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::string Raw(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A file as llm.c writes it, whose header says `count` tokens.
template <typename T = uint16_t>
std::string Llmc(int32_t count, const std::vector<T>& tokens,
                 int32_t version = 1, int32_t magic = 20240520) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return Raw(header) + Raw(tokens);
}

class TokenFilesTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) {
    return folder_.path() + "/" + name;
  }
  void Write(const std::string& name, const std::string& content) {
    std::filesystem::create_directories(
        std::filesystem::path(Path(name)).parent_path());
    ASYRA_CHECK_OK(WriteFileAtomically(Path(name), {content}));
  }
  absl::StatusOr<TokenFiles> Opened(const std::string& content,
                                    TokenForm form = TokenForm::kAuto) {
    Write("tokens", content);
    return TokenFiles::Open({Path("tokens")}, form);
  }
  std::string ErrorOf(const std::string& content,
                      TokenForm form = TokenForm::kAuto) {
    auto opened = Opened(content, form);
    return opened.ok() ? "no error" : std::string(MessageOf(opened.status()));
  }
  static std::vector<int64_t> All(const TokenFiles& files) {
    std::vector<int64_t> tokens(files.size());
    ASYRA_CHECK_OK(files.Read(0, INT64_MAX, absl::MakeSpan(tokens)));
    return tokens;
  }
  // The text of files whose bytes are tokens.
  std::string TextOf(const std::vector<std::string>& patterns) {
    std::vector<std::string> paths;
    for (const std::string& pattern : patterns) paths.push_back(Path(pattern));
    std::string text;
    for (int64_t token : All(ASYRA_VALUE(TokenFiles::Open(paths)))) {
      text += static_cast<char>(token);
    }
    return text;
  }
  ScratchFolder folder_{"tokens"};
  int written_ = 0;  // files of the identity test
};

TEST_F(TokenFilesTest, BytesOfAnyFileAreTokens) {
  TokenFiles files = ASYRA_VALUE(Opened("ab\xff\n"));
  EXPECT_TRUE(files.is_bytes());
  EXPECT_THAT(All(files), ElementsAre('a', 'b', 255, '\n'));
  EXPECT_EQ(ASYRA_VALUE(files.Largest()), 255);
  // One that begins almost as llm.c's do.
  files = ASYRA_VALUE(Opened(Llmc<uint16_t>(3, {1, 2, 3}, 1, 20240521)));
  EXPECT_TRUE(files.is_bytes());
  EXPECT_EQ(files.size(), 1030);
  files = ASYRA_VALUE(Opened(Llmc<uint16_t>(1, {7}), TokenForm::kBytes));
  EXPECT_EQ(files.size(), 1026);
}

TEST_F(TokenFilesTest, FilesOfLlmcSayWhereTheyEnd) {
  TokenFiles files = ASYRA_VALUE(Opened(Llmc<uint16_t>(2, {50256, 1})));
  EXPECT_FALSE(files.is_bytes());
  EXPECT_THAT(All(files), ElementsAre(50256, 1));
  files = ASYRA_VALUE(Opened(Llmc<uint32_t>(2, {128000, 5}, 7, 20240801)));
  EXPECT_THAT(All(files), ElementsAre(128000, 5));
}

TEST_F(TokenFilesTest, RawTokensAreAskedFor) {
  TokenFiles files =
      ASYRA_VALUE(Opened(Raw<uint16_t>({1, 65535}), TokenForm::kU16));
  EXPECT_THAT(All(files), ElementsAre(1, 65535));
  files = ASYRA_VALUE(Opened(Raw<uint32_t>({4000000000}), TokenForm::kU32));
  EXPECT_THAT(All(files), ElementsAre(4000000000));
}

TEST_F(TokenFilesTest, BrokenFilesAreNamedWithBothNumbers) {
  std::string place = Path("tokens") + ": ";
  EXPECT_EQ(ErrorOf(Llmc<uint16_t>(4, {1, 2, 3})),
            place + "the header says 4 tokens, there are 3");
  EXPECT_EQ(ErrorOf(Llmc<uint16_t>(-1, {1})),
            place + "the header says -1 tokens, there are 1");
  EXPECT_EQ(ErrorOf(Llmc<uint16_t>(100, std::vector<uint16_t>(400))),
            place + "the header says 100 tokens, there are 400");
  EXPECT_EQ(ErrorOf(Llmc<uint16_t>(2, {1, 2}) + "x"),
            place + "5 bytes are no whole number of uint16 tokens");
  EXPECT_EQ(ErrorOf(Llmc<uint16_t>(0, {})), place + "it has no tokens");
  EXPECT_EQ(ErrorOf(Llmc<uint16_t>(3, {1, 2, 3}, 2)),
            place + "version 2 of a token file, known is 1");
  EXPECT_EQ(ErrorOf(Llmc<uint16_t>(3, {}).substr(0, 100)),
            place +
                "it ends in the header of a token file, at byte 100 of "
                "1024");
  EXPECT_EQ(ErrorOf("abc", TokenForm::kU16),
            place + "3 bytes are no whole number of uint16 tokens");
  EXPECT_EQ(ErrorOf("abcdef", TokenForm::kU32),
            place + "6 bytes are no whole number of uint32 tokens");
  EXPECT_EQ(ErrorOf(""), place + "it has no tokens");
  EXPECT_THAT(std::string(MessageOf(TokenFiles::Open({"/nowhere/a"}).status())),
              HasSubstr("/nowhere/a: No such file"));
}

TEST_F(TokenFilesTest, PatternsNameShardsInOrder) {
  for (const char* name :
       {"b.txt", "a.txt", "a.bin", "sub/c.txt", "sub/deep/d.txt", ".hidden.txt",
        ".git/d.txt", "[x].txt"}) {
    Write(name, std::string(name) + ";");
  }
  EXPECT_EQ(TextOf({"?.txt"}), "a.txt;b.txt;");
  EXPECT_EQ(TextOf({"b.txt", "a.*"}), "b.txt;a.bin;a.txt;");
  EXPECT_EQ(TextOf({"sub/*.txt"}), "sub/c.txt;");
  EXPECT_EQ(TextOf({"s*/**/*.txt"}), "sub/c.txt;sub/deep/d.txt;");
  EXPECT_EQ(TextOf({"**/[cd].txt"}), "sub/c.txt;sub/deep/d.txt;");
  EXPECT_EQ(TextOf({"[x].txt"}), "[x].txt;");
  EXPECT_EQ(MessageOf(TokenFiles::Open({Path("*.no")}).status()),
            Path("*.no") + ": no file is called so");
  EXPECT_EQ(MessageOf(TokenFiles::Open({}).status()),
            "no file of tokens is named");
}

TEST_F(TokenFilesTest, ShardsOfDifferentFormsAreRefused) {
  Write("1", "text");
  Write("2", Llmc<uint16_t>(1, {1}));
  EXPECT_EQ(MessageOf(TokenFiles::Open({Path("1"), Path("2")}).status()),
            Path("2") + " has uint16 tokens, " + Path("1") + " has bytes");
  Write("1", Llmc<uint32_t>(1, {1}, 7, 20240801));
  EXPECT_EQ(
      MessageOf(TokenFiles::Open({Path("1"), Path("2")}).status()),
      Path("2") + " has uint16 tokens, " + Path("1") + " has uint32 tokens");
}

TEST_F(TokenFilesTest, AShardWithoutTokensIsRefused) {
  Write("1", "");
  Write("2", Llmc<uint16_t>(1, {1}));
  Write("3", Raw<uint16_t>({1, 2}));
  const std::string error = Path("1") + ": it has no tokens";
  for (const auto& [a, b] : {std::pair("1", "2"), std::pair("2", "1")}) {
    EXPECT_EQ(MessageOf(TokenFiles::Open({Path(a), Path(b)}).status()), error);
  }
  EXPECT_EQ(
      MessageOf(
          TokenFiles::Open({Path("3"), Path("1")}, TokenForm::kU16).status()),
      error);
}

TEST_F(TokenFilesTest, IdentityIsThatOfTheTokensAndNotOfTheNames) {
  auto identity = [&](const std::vector<std::string>& shards) {
    std::vector<std::string> paths;
    for (const std::string& shard : shards) {
      std::string name = fmt::format("{}", written_++);
      Write(name, shard);
      paths.push_back(Path(name));
    }
    return ASYRA_VALUE(ASYRA_VALUE(TokenFiles::Open(paths)).Identity());
  };
  const std::string text(300'000, 'a');
  std::string same = identity({text});
  EXPECT_THAT(same, HasSubstr("300000 bytes in 1 file, hash "));
  EXPECT_EQ(identity({text}), same);
  for (size_t at : {size_t{0}, size_t{99'999}, text.size() / 2, size_t{200'001},
                    text.size() - 1}) {
    std::string other = text;
    other[at] = 'b';
    EXPECT_NE(identity({other}), same) << at;
  }
  EXPECT_NE(identity({text + "a"}), same);
  EXPECT_NE(identity({"ab", "c"}), identity({"a", "bc"}));
  EXPECT_NE(identity({"ab", "c"}), identity({"c", "ab"}));
}

TEST_F(TokenFilesTest, ReadingGoesOnInTheNextShard) {
  Write("1", "abc");
  Write("2", "");
  Write("3", "defg");
  TokenFiles files = ASYRA_VALUE(TokenFiles::Open({Path("[123]")}));
  EXPECT_EQ(files.num_files(), 3u);
  std::vector<int64_t> tokens(4);
  ASYRA_CHECK_OK(files.Read(2, 256, absl::MakeSpan(tokens)));
  EXPECT_THAT(tokens, ElementsAre('c', 'd', 'e', 'f'));
  EXPECT_EQ(MessageOf(files.Read(2, 'f', absl::MakeSpan(tokens))),
            Path("3") + ": token 2 is 102, the model has 102 of them");
}

TEST_F(TokenFilesTest, AFileThatShrinksWhileItIsReadIsAnError) {
  TokenFiles files = ASYRA_VALUE(Opened("abcdef"));
  std::filesystem::resize_file(Path("tokens"), 3);
  std::vector<int64_t> tokens(6);
  EXPECT_THAT(
      std::string(MessageOf(files.Read(0, 256, absl::MakeSpan(tokens)))),
      HasSubstr(Path("tokens") + ": cannot read byte 3"));
}

}  // namespace
}  // namespace asyra
