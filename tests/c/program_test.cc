// Programs that are loaded from C.
#include <filesystem>
#include <string>

#include "c/asyra.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/support/file.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

// What is wrong with a file of this text; empty: nothing.
std::string LoadError(const std::string& text, asyra_status expected) {
  std::string path =
      (std::filesystem::path(::testing::TempDir()) / "c_program.asyra")
          .string();
  ASYRA_CHECK_OK(WriteFileAtomically(path, {text}));
  asyra_program* program = nullptr;
  asyra_status status = asyra_program_load(path.c_str(), nullptr, &program);
  asyra_program_free(program);
  std::filesystem::remove(path);
  EXPECT_EQ(status, expected);
  if (status == ASYRA_OK) return "";
  EXPECT_THAT(asyra_last_error(), HasSubstr(path + ": "));
  return asyra_last_error();
}

// As the tools refuse it (Verify), not only what the grammar refuses.
TEST(CPrograms, ThatAreNotValidAreRefused) {
  auto program = [](const std::string& type) {
    return "asyra 1 global\n\nprogram @f(%x: f32[2, 3]) -> (f32[2, 3]) {\n"
           "  %y = relu(%x) : " +
           type + "\n  return %y\n}\n";
  };
  EXPECT_EQ(LoadError(program("f32[2, 3]"), ASYRA_OK), "");
  EXPECT_THAT(LoadError(program("f32[2, 4]"), ASYRA_INVALID_ARGUMENT),
              HasSubstr("f32[2, 4]"));
  EXPECT_THAT(LoadError("asyra 1 global\nprogram", ASYRA_INVALID_ARGUMENT),
              HasSubstr("line 2, "));
}

TEST(CPrograms, MayBeOfHuggingFace) {
  std::string folder = ASYRA_SOURCE_DIR "/models/huggingface/gpt2";
  for (const std::string& model : {folder, folder + "/config.json"}) {
    asyra_program* program = nullptr;
    EXPECT_EQ(asyra_program_load(model.c_str(), "seq=8", &program), ASYRA_OK);
    asyra_program_free(program);
  }
  asyra_program* program = nullptr;
  EXPECT_EQ(asyra_program_load(folder.c_str(), "heads=8", &program),
            ASYRA_INVALID_ARGUMENT);
  EXPECT_THAT(asyra_last_error(), HasSubstr("config.json: no size heads"));
}

}  // namespace
}  // namespace asyra
