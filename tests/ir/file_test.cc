#include "ir/support/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class WriteFile : public testing::Test {
 protected:
  WriteFile() { std::filesystem::create_directories(folder_); }
  ~WriteFile() override { std::filesystem::remove_all(folder_); }
  std::string Path(const char* name) const { return (folder_ / name).string(); }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      fmt::format("asyra_file_{}", ::getpid());
};

TEST_F(WriteFile, KeepsSymbolicLinks) {
  std::string file = Path("file"), link = Path("link");
  ASYRA_CHECK_OK(WriteFileAtomically(file, {"old"}));
  std::filesystem::create_symlink("file", link);
  ASYRA_CHECK_OK(WriteFileAtomically(link, {"new", "er"}));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(ASYRA_VALUE(ReadFile(file)), "newer");
}

TEST_F(WriteFile, WritesTextIntoWhatIsNoFile) {
  std::string fifo = Path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  // Nobody reads it: that is not waited for.
  EXPECT_THAT(WriteTextFile(fifo, "some bytes").message(),
              testing::HasSubstr("nobody reads it"));
  int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASYRA_CHECK_OK(WriteTextFile(fifo, "some bytes"));
  char bytes[16] = {};
  EXPECT_EQ(::read(reader, bytes, sizeof(bytes)), 10);
  EXPECT_STREQ(bytes, "some bytes");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  ASYRA_CHECK_OK(WriteTextFile("/dev/null", "some bytes"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_THAT(WriteTextFile("/dev/full", "some bytes").message(),
              testing::HasSubstr("No space left on device"));
  ASYRA_CHECK_OK(WriteTextFile(Path("file"), "text"));
  EXPECT_EQ(ASYRA_VALUE(ReadFile(Path("file"))), "text");
}

// A path of this process' descriptor goes on where the descriptor is.
TEST_F(WriteFile, WritesTextToDescriptors) {
  int fd = ::open(Path("file").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(::write(fd, "first ", 6), 6);
  ASYRA_CHECK_OK(WriteTextFile(fmt::format("/dev/fd/{}", fd), "second"));
  ::close(fd);
  EXPECT_EQ(ASYRA_VALUE(ReadFile(Path("file"))), "first second");
}

TEST_F(WriteFile, ReplacesFilesOnly) {
  std::string fifo = Path("fifo"), folder = Path("folder");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_directory(folder);
  for (const std::string& path : {fifo, std::string("/dev/null")}) {
    EXPECT_THAT(WriteFileAtomically(path, {"bytes"}).message(),
                testing::HasSubstr(path + ": cannot write: it is a device or"));
  }
  EXPECT_THAT(WriteFileAtomically(folder, {"bytes"}).message(),
              testing::HasSubstr("Is a directory"));
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(WriteFile, IsNotReadFromWhatIsNoFile) {
  std::string fifo = Path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, std::string("/dev/zero"), Path("")}) {
    EXPECT_THAT(ReadFile(path).status().message(),
                testing::HasSubstr("not a regular file"));
  }
}

TEST_F(WriteFile, PathsEndWhereTheyEnd) {
  ASYRA_CHECK_OK(WriteFileAtomically(Path("ok"), {"bytes"}));
  std::string cut = Path("ok") + std::string("\0x", 2);
  for (const absl::Status& status :
       {ReadFile(cut).status(), WriteFileAtomically(cut, {"other"}),
        WriteTextFile(cut, "other")}) {
    EXPECT_THAT(status.message(),
                testing::HasSubstr("/ok\\0x': a path has no"));
  }
  EXPECT_EQ(ASYRA_VALUE(ReadFile(Path("ok"))), "bytes");
}

}  // namespace
}  // namespace asyra
