// File descriptors for other processes of this host, over Unix sockets: how
// device memory that one process has exported gets to the others.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace asyra {

// Closed when it goes out of scope.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }
  // The caller closes it.
  int Release();

 private:
  int fd_;
};

// Sends `fd`, of which the other end gets one of its own, with a text of at
// most 256 bytes. Errors: the system's.
absl::Status SendDescriptor(int socket, int fd, const std::string& text);

// Waits for one at most `timeout_s`. Errors: DeadlineExceeded; the other end
// has closed; a message without a descriptor; the system's.
struct ReceivedDescriptor {
  Descriptor descriptor;
  std::string text;
};
absl::StatusOr<ReceivedDescriptor> ReceiveDescriptor(int socket,
                                                     double timeout_s);

}  // namespace asyra
