// Messages over TCP: a kind and bytes, of which no more is taken than is due
// (wire.h). Other data on the connection is an error.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace asyra {

struct Message {
  uint32_t kind = 0;
  std::string bytes;
};

// Returns the header that precedes the bytes.
std::string HeaderOf(uint32_t kind, uint64_t bytes);

// The time that a message may stand still: it begins anew with every 64 KiB,
// not with every byte.
class Progress {
 public:
  explicit Progress(double timeout_s);
  void Moved(size_t bytes);
  double left_s() const;

 private:
  double timeout_s_;
  size_t bytes_ = 0;
  std::chrono::steady_clock::time_point until_;
};

// One end of a connection. Sending and receiving may be of two threads.
class Socket {
 public:
  explicit Socket(int fd);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Retries until the address accepts. Errors: an unknown host name, no answer
  // within `timeout_s`.
  static absl::StatusOr<std::unique_ptr<Socket>> Connect(
      const std::string& host, int port, double timeout_s);

  int fd() const { return fd_; }
  // Errors: the other end is gone; it takes nothing for `timeout_s`.
  absl::Status Send(uint32_t kind, std::string_view bytes, double timeout_s);
  // Waits for a message at most `first_s`, without limit if that is 0; one that
  // has begun goes on within `progress_s`. Memory grows with what has come.
  // Errors: Cancelled if the other end has closed; DeadlineExceeded; data that
  // is not a message.
  absl::StatusOr<Message> Receive(double first_s, double progress_s);

  // Seconds since the last bytes came, or the connection was made.
  double silent_s() const;

  void EndSending();
  // Ends a waiting Receive.
  void EndReceiving();

 private:
  absl::Status ReceiveAll(char* at, size_t bytes, Progress* progress);

  const int fd_;
  std::atomic<std::chrono::steady_clock::rep> heard_;
};

// A socket that others connect to.
class Listener {
 public:
  // Listens on those addresses of `host` that are this host's own. Port 0: one
  // that is free. Errors: a port in use; a host that is not known, or another
  // one.
  static absl::StatusOr<std::unique_ptr<Listener>> Create(
      const std::string& host, int port);
  ~Listener();
  int port() const { return port_; }
  const std::vector<int>& fds() const { return fds_; }

 private:
  Listener() = default;
  std::vector<int> fds_;
  int port_ = 0;
};

}  // namespace asyra
