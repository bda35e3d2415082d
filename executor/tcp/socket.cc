#include "executor/tcp/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "ir/support/status.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kMagic = 0x41535952;  // "ASYR"
constexpr uint64_t kMostBytes = uint64_t{1} << 40;
constexpr auto kTryAgainAfter = std::chrono::milliseconds(20);

struct Header {
  uint32_t magic = kMagic;
  uint32_t kind = 0;
  uint64_t bytes = 0;
};

std::string Errno() { return std::strerror(errno); }

// Whether there is something to read within `timeout_s`; 0: no limit.
bool Readable(int fd, double timeout_s) {
  pollfd wait{fd, POLLIN, 0};
  int ms = timeout_s > 0 ? static_cast<int>(timeout_s * 1e3) + 1 : -1;
  int ready = 0;
  do {
    ready = poll(&wait, 1, ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

absl::Status SendAll(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    // No SIGPIPE if the other end has closed.
    ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return absl::AbortedError(Errno());
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(int fd, void* data, size_t bytes, double timeout_s) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    if (timeout_s > 0 && !Readable(fd, timeout_s)) {
      return absl::DeadlineExceededError(
          fmt::format("nothing was heard within {:g} s", timeout_s));
    }
    ssize_t got = recv(fd, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return absl::CancelledError("the connection has ended");
    if (got < 0) return absl::AbortedError(Errno());
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

struct Addresses {
  ~Addresses() {
    if (first != nullptr) freeaddrinfo(first);
  }
  addrinfo* first = nullptr;
};

// A connection to one of the addresses, or -1.
int TryConnect(const Addresses& addresses) {
  for (addrinfo* at = addresses.first; at != nullptr; at = at->ai_next) {
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    if (connect(fd, at->ai_addr, at->ai_addrlen) == 0) return fd;
    close(fd);
  }
  return -1;
}

std::unique_ptr<Socket> Opened(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return std::make_unique<Socket>(fd);
}

}  // namespace

Socket::~Socket() { close(fd_); }

absl::StatusOr<std::unique_ptr<Socket>> Socket::Connect(const std::string& host,
                                                        int port,
                                                        double timeout_s) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  Addresses addresses;
  int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints,
                          &addresses.first);
  if (error != 0) {
    return NotFound("the host {} is not known: {}", host, gai_strerror(error));
  }
  auto until = Clock::now() + std::chrono::duration<double>(timeout_s);
  while (Clock::now() < until) {
    int fd = TryConnect(addresses);
    if (fd >= 0) return Opened(fd);
    std::this_thread::sleep_for(kTryAgainAfter);
  }
  return absl::DeadlineExceededError(fmt::format(
      "nobody listens at {}:{} within {:g} s", host, port, timeout_s));
}

absl::Status Socket::Send(uint32_t kind, std::string_view bytes) {
  std::lock_guard lock(sending_);
  Header header{.kind = kind, .bytes = bytes.size()};
  ASYRA_RETURN_IF_ERROR(SendAll(fd_, &header, sizeof(header)));
  return SendAll(fd_, bytes.data(), bytes.size());
}

absl::StatusOr<Message> Socket::Receive(double timeout_s) {
  Header header;
  ASYRA_RETURN_IF_ERROR(ReceiveAll(fd_, &header, sizeof(header), timeout_s));
  if (header.magic != kMagic || header.bytes > kMostBytes) {
    return Invalid("what was received is no message of ours");
  }
  Message message{header.kind, std::string(header.bytes, '\0')};
  ASYRA_RETURN_IF_ERROR(
      ReceiveAll(fd_, message.bytes.data(), header.bytes, timeout_s));
  return message;
}

void Socket::EndSending() { shutdown(fd_, SHUT_WR); }
void Socket::EndReceiving() { shutdown(fd_, SHUT_RD); }

absl::StatusOr<std::unique_ptr<Listener>> Listener::Create(int port) {
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool six = fd >= 0;
  if (!six) fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::InternalError("socket: " + Errno());
  int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<uint16_t>(port));
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = any6.sin6_port;
  if (six) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  auto* address = six ? reinterpret_cast<sockaddr*>(&any6)
                      : reinterpret_cast<sockaddr*>(&any4);
  socklen_t size = six ? sizeof(any6) : sizeof(any4);
  if (bind(fd, address, size) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, address, &size) != 0) {
    std::string why = Errno();
    close(fd);
    return absl::UnavailableError(fmt::format("port {}: {}", port, why));
  }
  int bound = ntohs(six ? any6.sin6_port : any4.sin_port);
  return std::unique_ptr<Listener>(new Listener(fd, bound));
}

Listener::~Listener() { close(fd_); }

absl::StatusOr<std::unique_ptr<Socket>> Listener::Accept(double timeout_s) {
  if (!Readable(fd_, timeout_s)) {
    return absl::DeadlineExceededError(
        fmt::format("nobody connects within {:g} s", timeout_s));
  }
  int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return absl::AbortedError("accept: " + Errno());
  return Opened(fd);
}

}  // namespace asyra
