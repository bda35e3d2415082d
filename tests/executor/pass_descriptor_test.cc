#include "executor/comm/pass_descriptor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

using testing::HasSubstr;

class PassDescriptor : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASYRA_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    here_ = Descriptor(ends[0]);
    there_ = Descriptor(ends[1]);
  }
  Descriptor here_, there_;
};

TEST_F(PassDescriptor, AnotherProcessReadsWhatItPointsTo) {
  int pipe_ends[2];
  ASYRA_CHECK(pipe(pipe_ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    auto received = ReceiveDescriptor(there_.get(), 10);
    bool good = received.ok() && received->text == "pipe 3" &&
                ::write(received->descriptor.get(), "hello", 5) == 5;
    _exit(good ? 0 : 1);
  }
  ASYRA_CHECK_OK(SendDescriptor(here_.get(), pipe_ends[1], "pipe 3"));
  int status = 0;
  ASYRA_CHECK(waitpid(child, &status, 0) == child);
  EXPECT_EQ(status, 0);
  char bytes[6] = {};
  EXPECT_EQ(::read(pipe_ends[0], bytes, 5), 5);
  EXPECT_STREQ(bytes, "hello");
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

TEST_F(PassDescriptor, SeveralKeepTheirOrderAndTexts) {
  for (const char* text : {"", "b", "c"}) {
    ASYRA_CHECK_OK(SendDescriptor(here_.get(), STDERR_FILENO, text));
    auto received = ASYRA_VALUE(ReceiveDescriptor(there_.get(), 10));
    EXPECT_EQ(received.text, text);
    // One of its own, that programs it starts do not inherit.
    EXPECT_GT(received.descriptor.get(), STDERR_FILENO);
    EXPECT_EQ(fcntl(received.descriptor.get(), F_GETFD), FD_CLOEXEC);
  }
}

TEST_F(PassDescriptor, ErrorsSayWhatIsWrong) {
  EXPECT_THAT(ReceiveDescriptor(there_.get(), 0.01).status().ToString(),
              HasSubstr("no descriptor has come within 0.01 s"));
  EXPECT_THAT(SendDescriptor(here_.get(), 2, std::string(300, 'x')).ToString(),
              HasSubstr("the text has 300 bytes, at most 256"));
  EXPECT_FALSE(SendDescriptor(here_.get(), 12345, "").ok());
  ASYRA_CHECK(::write(here_.get(), "x", 1) == 1);
  EXPECT_THAT(ReceiveDescriptor(there_.get(), 10).status().ToString(),
              HasSubstr("came without a descriptor"));
  here_ = Descriptor();
  EXPECT_THAT(ReceiveDescriptor(there_.get(), 10).status().ToString(),
              HasSubstr("has closed its end"));
  EXPECT_THAT(SendDescriptor(there_.get(), 2, "").ToString(),
              HasSubstr("cannot be sent"));
}

TEST(Descriptors, AreClosedOnce) {
  int fd = dup(STDERR_FILENO);
  {
    Descriptor one(fd);
    Descriptor other = std::move(one);
    EXPECT_EQ(one.get(), -1);
    EXPECT_EQ(other.get(), fd);
  }
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

}  // namespace
}  // namespace asyra
