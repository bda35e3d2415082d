// A file that is there as long as a test.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/support/file.h"

namespace asyra {

class ScratchFile {
 public:
  explicit ScratchFile(std::string_view name, std::string_view content = "")
      : path_((std::filesystem::path(::testing::TempDir()) /
               fmt::format("{}_{}", ::getpid(), name))
                  .string()) {
    ASYRA_CHECK_OK(WriteFileAtomically(path_, {content}));
  }
  ~ScratchFile() { std::filesystem::remove(path_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace asyra
