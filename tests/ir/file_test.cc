#include "ir/support/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "fmt/format.h"
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

TEST_F(WriteFile, WritesIntoWhatIsNoFile) {
  std::string fifo = Path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASYRA_CHECK_OK(WriteFileAtomically(fifo, {"some", " bytes"}));
  char bytes[16] = {};
  EXPECT_EQ(::read(reader, bytes, sizeof(bytes)), 10);
  EXPECT_STREQ(bytes, "some bytes");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  ASYRA_CHECK_OK(WriteFileAtomically("/dev/null", {"some bytes"}));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace asyra
