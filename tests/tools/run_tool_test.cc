// Exit statuses and errors that a tool ends with.
#include "tools/run_tool.h"

#include <new>
#include <stdexcept>

#include "gmock/gmock.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

struct End {
  int code;
  std::string said;
};

End EndOf(const std::function<absl::Status()>& tool) {
  CLI::App app("", "asyra-test");
  char name[] = "asyra-test";
  char* argv[] = {name};
  CaptureStderr();
  int code = RunTool(app, 1, argv, tool);
  return {code, GetCapturedStderr()};
}

TEST(RunTool, WhatNobodyCatchesIsOneLine) {
  End memory = EndOf([]() -> absl::Status { throw std::bad_alloc(); });
  EXPECT_EQ(memory.code, 1);
  EXPECT_EQ(memory.said,
            "asyra-test: out of memory: the system gives this process no "
            "more\n");
  End other =
      EndOf([]() -> absl::Status { throw std::length_error("too long"); });
  EXPECT_EQ(other.code, 1);
  EXPECT_EQ(other.said, "asyra-test: internal error: too long\n");
  EXPECT_EQ(EndOf([] { return absl::OkStatus(); }).code, 0);
}

}  // namespace
}  // namespace asyra
