#include "tools/train/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string_view>

#include "ir/support/file.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// WriteAll where a pipe whose reader has gone is an error and no signal.
int WriteWithoutSignal(int fd, std::string_view bytes) {
  sigset_t pipe, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  int error = WriteAll(fd, bytes);
  timespec none = {};
  if (error == EPIPE) sigtimedwait(&pipe, nullptr, &none);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

}  // namespace

LogFile::~LogFile() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status LogFile::Open(const std::string& path) {
  path_ = path;
  fd_ = OpenWithoutWaiting(path, O_APPEND | O_CREAT);
  if (fd_ >= 0) return absl::OkStatus();
  return Invalid("{}: {}", path,
                 errno == ENXIO ? "nobody reads it" : std::strerror(errno));
}

void LogFile::Write(std::string line) {
  line += '\n';
  ++lines_;
  struct stat before = {};
  bool is_file = ::fstat(fd_, &before) == 0 && S_ISREG(before.st_mode);
  int error = WriteWithoutSignal(fd_, line);
  if (error == 0) return;
  // Later lines may fit again.
  if (is_file && ::ftruncate(fd_, before.st_size) != 0) error = errno;
  ++missing_;
  if (error_ != 0) return;
  error_ = error;
  std::fprintf(stderr, "asyra-train: warning: %s: cannot write: %s\n",
               path_.c_str(), std::strerror(error));
}

absl::Status LogFile::Check() const {
  if (missing_ == 0) return absl::OkStatus();
  return Invalid("{}: {} of {} lines could not be written: {}", path_, missing_,
                 lines_, std::strerror(error_));
}

}  // namespace asyra
