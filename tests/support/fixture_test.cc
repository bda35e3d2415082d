#include "tests/support/fixture.h"

#include <unistd.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/parser.h"
#include "ir/support/file.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kProgram = R"(asyra 1 global

program @f(%x: f32[3]) -> (f32[3]) {
  %y = add(%x, %x) : f32[3]
  return %y
}
)";
constexpr std::string_view kOther = R"(asyra 1 global

program @f(%x: f32[3]) -> (f32[3]) {
  %y = mul(%x, %x) : f32[3]
  return %y
}
)";

absl::Status MakeOther(Program& program, std::string_view passes) {
  if (passes != "other") return Invalid("unknown pass {}", passes);
  absl::StatusOr<Program> other = ParseProgram(kOther);
  if (!other.ok()) return other.status();
  program = *other;
  return absl::OkStatus();
}

std::string Text(std::string_view directives, std::string_view expected) {
  return fmt::format("{}\n{}// ----\n{}", directives, kProgram, expected);
}

std::string ErrorOf(std::string_view directives, std::string_view expected) {
  absl::StatusOr<Fixture> fixture =
      ParseFixture(Text(directives, expected), "f.asyra");
  absl::Status status =
      fixture.ok() ? CheckFixture(*fixture, MakeOther) : fixture.status();
  if (status.ok()) return "no error";
  return std::string(MessageOf(status));
}

TEST(Fixture, HoldsWhenTextAndMeaningAgree) {
  EXPECT_EQ(ErrorOf("// RUN: verify", kProgram), "no error");
  EXPECT_EQ(
      ErrorOf("// RUN: other\n// NO EXECUTION: it changes the meaning", kOther),
      "no error");
  EXPECT_EQ(ErrorOf("// RUN: none", "// ERROR: unknown pass\n// ERROR: none"),
            "no error");
}

TEST(Fixture, OtherTextIsAnErrorWithTheLine) {
  EXPECT_THAT(ErrorOf("// RUN: verify", kOther),
              HasSubstr("line 4 is\n    %y = add(%x, %x)"));
  EXPECT_THAT(ErrorOf("// RUN: verify", ""), HasSubstr("line 1 is"));
}

TEST(Fixture, OtherMeaningIsAnError) {
  EXPECT_THAT(ErrorOf("// RUN: other", kOther), HasSubstr("output 0 element"));
  EXPECT_EQ(ErrorOf("// RUN: other\n// TOLERANCE: 100", kOther), "no error");
}

TEST(Fixture, OtherTypesAreAnErrorUnlessSaid) {
  std::string wide(kProgram);
  for (size_t at; (at = wide.find("f32")) != std::string::npos;) {
    wide.replace(at, 3, "f64");
  }
  auto widen = [&](Program& program, std::string_view) {
    program = *ParseProgram(wide);
    return absl::OkStatus();
  };
  auto check = [&](std::string_view directives) {
    return CheckFixture(*ParseFixture(Text(directives, wide), "f.asyra"),
                        widen);
  };
  EXPECT_FALSE(check("// RUN: widen").ok());
  EXPECT_TRUE(check("// RUN: widen\n// TYPES CHANGE: it widens").ok());
}

TEST(Fixture, GradientsMustBeThere) {
  EXPECT_THAT(ErrorOf("// RUN: other\n// GRADIENTS: 1", kOther),
              HasSubstr("no output is the gradient"));
}

TEST(Fixture, AnErrorMustComeAndBeTheOneExpected) {
  EXPECT_THAT(ErrorOf("// RUN: verify", "// ERROR: boom"),
              HasSubstr("no error, expected: boom"));
  EXPECT_THAT(ErrorOf("// RUN: none", "// ERROR: boom"),
              HasSubstr("unknown pass none"));
  EXPECT_THAT(ErrorOf("// RUN: none", kProgram), HasSubstr("unknown pass"));
}

TEST(Fixture, FilesThatAreNoneAreErrors) {
  EXPECT_THAT(ErrorOf("// run: verify", kProgram), HasSubstr("first line"));
  EXPECT_THAT(ErrorOf("// RUN: verify\n// TOLERANCE: abc", kProgram),
              HasSubstr("TOLERANCE is no number: abc"));
  EXPECT_THAT(ErrorOf("// RUN: verify\n// GRADIENTS: abc", kProgram),
              HasSubstr("GRADIENTS is no number: abc"));
  EXPECT_THAT(ErrorOf("// RUN: verify", "// ERROR: a\nb"),
              HasSubstr("'b' is not"));
  EXPECT_THAT(std::string(MessageOf(
                  ParseFixture("// RUN: verify\n", "f.asyra").status())),
              HasSubstr("no line '// ----'"));
}

TEST(Fixture, UpdatingRewritesTheExpectationOnly) {
  std::string path = (std::filesystem::path(::testing::TempDir()) /
                      fmt::format("fixture{}.asyra", ::getpid()))
                         .string();
  std::string_view run = "// RUN: other\n// NO EXECUTION: changes";
  ASSERT_TRUE(WriteFileAtomically(path, {Text(run, kProgram)}).ok());
  EXPECT_FALSE(CheckFixtureFile(path, MakeOther, /*update=*/false).ok());
  EXPECT_EQ(*ReadFile(path), Text(run, kProgram));
  EXPECT_TRUE(CheckFixtureFile(path, MakeOther, /*update=*/true).ok());
  EXPECT_EQ(*ReadFile(path), Text(run, kOther));
  // A changed meaning does not become right by writing it down.
  ASSERT_TRUE(WriteFileAtomically(path, {Text("// RUN: other", "")}).ok());
  EXPECT_FALSE(CheckFixtureFile(path, MakeOther, /*update=*/true).ok());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace asyra
