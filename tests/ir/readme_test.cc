// The language reference tells the truth: its programs verify, and its table
// lists the ops there are. So do the plans that the fuzzer starts from.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "gtest/gtest.h"
#include "ir/op_def.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/support/file.h"
#include "ir/verify/verifier.h"

namespace asyra {
namespace {

std::string Readme() {
  std::ifstream file(ASYRA_SOURCE_DIR "/ir/README.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The text between each `open` and the next `close`.
std::vector<std::string> Between(const std::string& text, std::string_view open,
                                 std::string_view close) {
  std::vector<std::string> found;
  for (size_t at = text.find(open); at != std::string::npos;) {
    size_t begin = at + open.size(), end = text.find(close, begin);
    if (end == std::string::npos) break;
    found.push_back(text.substr(begin, end - begin));
    at = text.find(open, end + close.size());
  }
  return found;
}

TEST(Readme, ItsProgramsVerifyAndRoundTrip) {
  std::vector<std::string> programs = Between(Readme(), "```asyra\n", "```");
  EXPECT_GE(programs.size(), 5u);
  for (const std::string& text : programs) {
    absl::StatusOr<Program> program = ParseProgram(text);
    ASSERT_TRUE(program.ok()) << program.status() << "\n" << text;
    absl::Status verified = Verify(*program);
    EXPECT_TRUE(verified.ok()) << verified;
    std::string printed = ToString(*program);
    absl::StatusOr<Program> again = ParseProgram(printed);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(ToString(*again), printed);
  }
}

TEST(Readme, ItsTableListsEveryOp) {
  std::vector<std::string> tables =
      Between(Readme(), "| group | ops |\n|---|---|\n", "\n\n");
  ASSERT_EQ(tables.size(), 1u);
  std::vector<std::string> listed = Between(tables[0], "`", "`");
  std::set<std::string> ops;
  for (const OpDef* def : AllOps()) ops.emplace(def->name);
  EXPECT_EQ(std::set<std::string>(listed.begin(), listed.end()), ops);
}

// Seeds of the fuzzer: plans of every kind of step.
TEST(FuzzSeeds, PlansReadBack) {
  int seeds = 0;
  const std::filesystem::path folder =
      ASYRA_SOURCE_DIR "/tests/fuzz/text_seeds";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(file.path().string());
    ++seeds;
    std::string text = ASYRA_VALUE(ReadFile(file.path().string()));
    Program program = ASYRA_VALUE(ParseProgram(text));
    EXPECT_EQ(ToString(program), text);
    EXPECT_EQ(Verify(program), absl::OkStatus());
    EXPECT_TRUE(program.ops[0].attrs.Get<PlanRef>("plan").get() != nullptr);
  }
  EXPECT_GE(seeds, 6);
}

}  // namespace
}  // namespace asyra
