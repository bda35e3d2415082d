#include "executor/tcp/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "executor/tcp/wire.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr uint32_t kMagic = 0x41535952;  // "ASYR"
constexpr auto kTryAgainAfter = std::chrono::milliseconds(20);
constexpr size_t kLeastProgress = 64 << 10;
// Bytes that are reserved before any has come.
constexpr uint64_t kFirstBytes = 16 << 20;

struct Header {
  uint32_t magic = kMagic;
  uint32_t kind = 0;
  uint64_t bytes = 0;
};

std::string Errno() { return std::strerror(errno); }

// Waits for `events`; false: none within `timeout_s`.
bool Ready(int fd, short events, double timeout_s) {
  auto until = Clock::now() + Seconds(timeout_s);
  while (true) {
    Seconds left = until - Clock::now();
    pollfd wait{fd, events, 0};
    int ms = static_cast<int>(std::clamp(left.count() * 1e3 + 1, 0.0, 1e6));
    int ready = poll(&wait, 1, ms);
    if (ready > 0) return true;
    if (left.count() <= 0 || (ready < 0 && errno != EINTR)) return false;
  }
}

bool WouldBlock() {
  return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
}

absl::Status SendAll(int fd, std::string_view bytes, Progress* progress) {
  while (!bytes.empty()) {
    // No SIGPIPE if the other end has closed.
    ssize_t sent =
        send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && !WouldBlock()) return absl::AbortedError(Errno());
    if (sent > 0) {
      progress->Moved(static_cast<size_t>(sent));
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (!Ready(fd, POLLOUT, progress->left_s())) {
      return absl::DeadlineExceededError("it takes nothing");
    }
  }
  return absl::OkStatus();
}

struct Addresses {
  ~Addresses() {
    if (first != nullptr) freeaddrinfo(first);
  }
  addrinfo* first = nullptr;
};

absl::Status Resolve(const std::string& host, int port, Addresses* found) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints,
                          &found->first);
  if (error == 0) return absl::OkStatus();
  return NotFound("the host {} is not known: {}", host, gai_strerror(error));
}

// Waits for an address to accept; false: not within the time.
bool ConnectTo(int fd, const addrinfo& at, double timeout_s) {
  if (connect(fd, at.ai_addr, at.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS || !Ready(fd, POLLOUT, timeout_s)) return false;
  int error = 0;
  socklen_t size = sizeof(error);
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

// A connection to one of the addresses, or -1.
int TryConnect(const Addresses& addresses, Clock::time_point until) {
  for (addrinfo* at = addresses.first; at != nullptr; at = at->ai_next) {
    int fd =
        socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    if (ConnectTo(fd, *at, Seconds(until - Clock::now()).count())) return fd;
    close(fd);
  }
  return -1;
}

// A socket that listens at the address, or -1 and errno.
int ListenAt(const addrinfo& at) {
  int fd = socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return fd;
  int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // Addresses of version 4 are listened at on their own.
  if (at.ai_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  }
  if (bind(fd, at.ai_addr, at.ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) {
    return fd;
  }
  int why = errno;
  close(fd);
  errno = why;
  return -1;
}

// True for an address that stands before in the list: hosts files repeat them.
bool IsListed(const addrinfo& first, const addrinfo& at) {
  for (const addrinfo* other = &first; other != &at; other = other->ai_next) {
    if (other->ai_addrlen == at.ai_addrlen &&
        std::memcmp(other->ai_addr, at.ai_addr, at.ai_addrlen) == 0) {
      return true;
    }
  }
  return false;
}

// Ports of both families are at the same place.
void SetPort(int port, addrinfo* at) {
  reinterpret_cast<sockaddr_in*>(at->ai_addr)->sin_port =
      htons(static_cast<uint16_t>(port));
}

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

}  // namespace

std::string HeaderOf(uint32_t kind, uint64_t bytes) {
  Header header{.kind = kind, .bytes = bytes};
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

Progress::Progress(double timeout_s) : timeout_s_(timeout_s) {
  Moved(kLeastProgress);
}

void Progress::Moved(size_t bytes) {
  bytes_ += bytes;
  if (bytes_ < kLeastProgress) return;
  bytes_ = 0;
  until_ = Clock::now() +
           std::chrono::duration_cast<Clock::duration>(Seconds(timeout_s_));
}

double Progress::left_s() const {
  return Seconds(until_ - Clock::now()).count();
}

Socket::Socket(int fd)
    : fd_(fd), heard_(Clock::now().time_since_epoch().count()) {
  int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}
Socket::~Socket() { close(fd_); }

absl::StatusOr<std::unique_ptr<Socket>> Socket::Connect(const std::string& host,
                                                        int port,
                                                        double timeout_s) {
  Addresses addresses;
  ASYRA_RETURN_IF_ERROR(Resolve(host, port, &addresses));
  auto until = Clock::now() +
               std::chrono::duration_cast<Clock::duration>(Seconds(timeout_s));
  while (Clock::now() < until) {
    int fd = TryConnect(addresses, until);
    if (fd >= 0) return std::make_unique<Socket>(fd);
    std::this_thread::sleep_for(kTryAgainAfter);
  }
  return absl::DeadlineExceededError(fmt::format(
      "nobody listens at {}:{} within {:g} s", host, port, timeout_s));
}

absl::Status Socket::Send(uint32_t kind, std::string_view bytes,
                          double timeout_s) {
  Progress progress(timeout_s);
  ASYRA_RETURN_IF_ERROR(SendAll(fd_, HeaderOf(kind, bytes.size()), &progress));
  return SendAll(fd_, bytes, &progress);
}

absl::Status Socket::ReceiveAll(char* at, size_t bytes, Progress* progress) {
  while (bytes > 0) {
    ssize_t got = recv(fd_, at, bytes, MSG_DONTWAIT);
    if (got == 0) return absl::CancelledError("the connection has ended");
    if (got < 0 && !WouldBlock()) return absl::AbortedError(Errno());
    if (got > 0) {
      heard_.store(Clock::now().time_since_epoch().count());
      progress->Moved(static_cast<size_t>(got));
      at += got;
      bytes -= static_cast<size_t>(got);
    } else if (!Ready(fd_, POLLIN, progress->left_s())) {
      return absl::DeadlineExceededError(fmt::format(
          "a message stands still, {} bytes before its end", bytes));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Message> Socket::Receive(double first_s, double progress_s) {
  constexpr double kForever = 1e9;
  if (!Ready(fd_, POLLIN, first_s > 0 ? first_s : kForever)) {
    return absl::DeadlineExceededError(
        fmt::format("nothing was heard within {:g} s", first_s));
  }
  Header header;
  Progress progress(progress_s);
  ASYRA_RETURN_IF_ERROR(
      ReceiveAll(reinterpret_cast<char*>(&header), sizeof(header), &progress));
  if (header.magic != kMagic) {
    return Invalid("what was received is no message of ours");
  }
  if (header.bytes > MostBytes(header.kind)) {
    return Invalid("a message of kind {} states {} bytes, at most {} are due",
                   header.kind, header.bytes, MostBytes(header.kind));
  }
  Message message{header.kind, ""};
  size_t have = 0;
  while (have < header.bytes) {
    size_t next =
        std::min(header.bytes, std::max<uint64_t>(kFirstBytes, 2 * have));
    message.bytes.resize(next);
    ASYRA_RETURN_IF_ERROR(
        ReceiveAll(message.bytes.data() + have, next - have, &progress));
    have = next;
  }
  return message;
}

double Socket::silent_s() const {
  Clock::time_point heard{Clock::duration(heard_.load())};
  return Seconds(Clock::now() - heard).count();
}

void Socket::EndSending() { shutdown(fd_, SHUT_WR); }
void Socket::EndReceiving() { shutdown(fd_, SHUT_RD); }

absl::StatusOr<std::unique_ptr<Listener>> Listener::Create(
    const std::string& host, int port) {
  Addresses addresses;
  ASYRA_RETURN_IF_ERROR(Resolve(host, port, &addresses));
  std::unique_ptr<Listener> listener(new Listener);
  int why = EADDRNOTAVAIL;
  for (addrinfo* at = addresses.first; at != nullptr; at = at->ai_next) {
    if (IsListed(*addresses.first, *at)) continue;
    if (listener->port_ != 0) SetPort(listener->port_, at);
    int fd = ListenAt(*at);
    if (fd < 0) {
      why = errno;
      if (why == EADDRINUSE) break;
      continue;
    }
    listener->fds_.push_back(fd);
    listener->port_ = PortOf(fd);
  }
  if (listener->fds_.empty() || why == EADDRINUSE) {
    return absl::UnavailableError(
        fmt::format("rank 0 cannot listen at {} port {}: {}", host, port,
                    std::strerror(why)));
  }
  return listener;
}

Listener::~Listener() {
  for (int fd : fds_) close(fd);
}

}  // namespace asyra
