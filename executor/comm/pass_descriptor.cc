#include "executor/comm/pass_descriptor.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr size_t kMostText = 256;

absl::Status SystemError(std::string_view what) {
  return absl::UnavailableError(
      fmt::format("{}: {}", what, std::strerror(errno)));
}

// Room for the control message of one descriptor.
union Control {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
};

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

int Descriptor::Release() { return std::exchange(fd_, -1); }

absl::Status SendDescriptor(int socket, int fd, const std::string& text) {
  if (text.size() > kMostText) {
    return Invalid("the text has {} bytes, at most {} go with a descriptor",
                   text.size(), kMostText);
  }
  // A message without bytes would be the end of a stream.
  std::string bytes = "+" + text;
  iovec part = {bytes.data(), bytes.size()};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  if (sent < 0) return SystemError("a descriptor cannot be sent");
  return absl::UnavailableError("a descriptor was sent in part");
}

absl::StatusOr<ReceivedDescriptor> ReceiveDescriptor(int socket,
                                                     double timeout_s) {
  pollfd wait = {socket, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&wait, 1, static_cast<int>(timeout_s * 1000));
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return SystemError("a descriptor cannot be waited for");
  if (ready == 0) {
    return absl::DeadlineExceededError(
        fmt::format("no descriptor has come within {:g} s", timeout_s));
  }
  char bytes[kMostText + 1];
  iovec part = {bytes, sizeof(bytes)};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return SystemError("a descriptor cannot be received");
  if (got == 0) {
    return absl::UnavailableError("the other process has closed its end");
  }
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    return absl::UnavailableError("a message came without a descriptor");
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  ReceivedDescriptor received;
  received.descriptor = Descriptor(fd);
  received.text.assign(bytes + 1, static_cast<size_t>(got) - 1);
  return received;
}

}  // namespace asyra
