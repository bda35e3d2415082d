// Messages over TCP: a kind and bytes. Other data on the connection is an
// error.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace asyra {

struct Message {
  uint32_t kind = 0;
  std::string bytes;
};

// One end of a connection. Sending is thread-safe, receiving is for one thread.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Retries until the address accepts. Errors: an unknown host name, no answer
  // within `timeout_s`.
  static absl::StatusOr<std::unique_ptr<Socket>> Connect(
      const std::string& host, int port, double timeout_s);

  // Errors: the other end is gone.
  absl::Status Send(uint32_t kind, std::string_view bytes);
  // Waits at most `timeout_s`, without limit if it is 0. Errors: Cancelled if
  // the other end has closed; DeadlineExceeded; data that is not a message.
  absl::StatusOr<Message> Receive(double timeout_s = 0);

  void EndSending();
  // Ends a waiting Receive.
  void EndReceiving();

 private:
  const int fd_;
  std::mutex sending_;
};

// Where others connect to.
class Listener {
 public:
  // On all addresses of this host. Port 0: one that is free. Error: a port in
  // use.
  static absl::StatusOr<std::unique_ptr<Listener>> Create(int port);
  ~Listener();
  int port() const { return port_; }
  // Error: DeadlineExceeded if nobody connects within `timeout_s`.
  absl::StatusOr<std::unique_ptr<Socket>> Accept(double timeout_s);

 private:
  Listener(int fd, int port) : fd_(fd), port_(port) {}
  int fd_, port_;
};

}  // namespace asyra
