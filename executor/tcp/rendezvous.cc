#include "executor/tcp/rendezvous.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <map>
#include <thread>

#include "executor/comm/rank_error.h"
#include "executor/tcp/handshake.h"
#include "executor/tcp/sha256.h"
#include "executor/tcp/wire.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr double kHelloSeconds = 2;
// Connections without a hello yet; the oldest makes room for one more.
constexpr size_t kMostWaiting = 512;
constexpr size_t kMostReasons = 3;
// Time that a rank has to take a message sent to it.
constexpr double kTellSeconds = 0.2;
constexpr auto kTryAgainAfter = std::chrono::milliseconds(50);

// Connections that were none of ours, by why.
class Dropped {
 public:
  void Add(const std::string& why) {
    bool room = reasons_.size() < kMostReasons || reasons_.contains(why);
    ++(room ? reasons_[why] : others_);
  }
  // "; 3 connections were dropped: 2 without a hello, 1 ..."; or nothing.
  std::string Text() const {
    int64_t all = others_;
    std::string text;
    for (const auto& [why, count] : reasons_) {
      all += count;
      text += fmt::format("{} {} {}", text.empty() ? "" : ",", count, why);
    }
    if (all == 0) return "";
    if (others_ > 0) text += fmt::format(" and {} more", others_);
    return fmt::format("; {} connection{} dropped:{}", all,
                       all == 1 ? " was" : "s were", text);
  }

 private:
  std::map<std::string, int64_t> reasons_;
  int64_t others_ = 0;
};

// A connection whose hello is not complete.
struct Newcomer {
  std::unique_ptr<Socket> socket;
  std::string challenge = MakeNonce();
  std::string got;  // of the message kHello
  Clock::time_point until =
      Clock::now() +
      std::chrono::duration_cast<Clock::duration>(Seconds(kHelloSeconds));
};

class Reception {
 public:
  explicit Reception(const TcpWorldOptions& options)
      : options_(options), ranks_(options.size) {}

  absl::StatusOr<std::vector<std::unique_ptr<Socket>>> AcceptAll() {
    const std::string& host =
        options_.listen.empty() ? options_.host : options_.listen;
    ASYRA_ASSIGN_OR_RETURN(listener_, Listener::Create(host, options_.port));
    auto until = Clock::now() + Seconds(options_.timeout_s);
    while (missing_ = Missing(), !missing_.empty()) {
      double left_s = Seconds(until - Clock::now()).count();
      if (left_s <= 0) return TellMissing(host);
      Serve(left_s);
    }
    return std::move(ranks_);
  }

 private:
  std::vector<int64_t> Missing() const {
    std::vector<int64_t> missing;
    for (int64_t r = 1; r < options_.size; ++r) {
      if (ranks_[r] == nullptr) missing.push_back(r);
    }
    return missing;
  }

  absl::Status TellMissing(const std::string& host) {
    while (!newcomers_.empty()) DropFirst("without a hello");
    absl::Status lost = absl::DeadlineExceededError(
        fmt::format("{} {} not come to {} port {} within {:g} s{}",
                    ListRanks(missing_), missing_.size() == 1 ? "has" : "have",
                    host, options_.port, options_.timeout_s, dropped_.Text()));
    std::string bytes;
    Append(0, &bytes);
    bytes += MessageOf(lost);
    for (auto& rank : ranks_) {
      if (rank != nullptr) {
        rank->Send(kAbort, bytes, kTellSeconds).IgnoreError();
      }
    }
    return lost;
  }

  // Accepts and reads what has arrived.
  void Serve(double left_s) {
    std::vector<pollfd> polled;
    for (int fd : listener_->fds()) polled.push_back({fd, POLLIN, 0});
    size_t listening = polled.size();
    for (const Newcomer& newcomer : newcomers_) {
      polled.push_back({newcomer.socket->fd(), POLLIN, 0});
      left_s = std::min(left_s, Seconds(newcomer.until - Clock::now()).count());
    }
    int ms = static_cast<int>(std::max(left_s, 0.0) * 1e3) + 1;
    if (poll(polled.data(), polled.size(), ms) < 0) return;
    std::deque<Newcomer> still;
    for (size_t i = listening; i < polled.size(); ++i) {
      Newcomer newcomer = std::move(newcomers_.front());
      newcomers_.pop_front();
      bool goes_on = polled[i].revents == 0 || Read(&newcomer);
      if (goes_on && newcomer.until <= Clock::now()) {
        dropped_.Add("without a hello");
      } else if (goes_on) {
        still.push_back(std::move(newcomer));
      }
    }
    newcomers_ = std::move(still);
    for (size_t i = 0; i < listening; ++i) {
      if (polled[i].revents != 0) Accept(polled[i].fd);
    }
  }

  void Accept(int listening) {
    int fd = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                  errno == ENOMEM;
      if (full && !newcomers_.empty()) DropFirst("to make room");
      if (full) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    if (newcomers_.size() == kMostWaiting) DropFirst("to make room");
    Newcomer newcomer{std::make_unique<Socket>(fd)};
    // Into an empty buffer: takes no time.
    newcomer.socket->Send(kChallenge, newcomer.challenge, 0).IgnoreError();
    newcomers_.push_back(std::move(newcomer));
  }

  void DropFirst(const std::string& why) {
    newcomers_.pop_front();
    dropped_.Add(why);
  }

  // Reads what has come; true: more of the hello is to come.
  bool Read(Newcomer* newcomer) {
    const std::string header = HeaderOf(kHello, kHelloBytes);
    std::string& got = newcomer->got;
    char bytes[kHelloBytes + 64];
    size_t most = header.size() + kHelloBytes - got.size();
    ssize_t read = recv(newcomer->socket->fd(), bytes, most, MSG_DONTWAIT);
    if (read < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (read <= 0) {
      dropped_.Add("that ended without a hello");
      return false;
    }
    got.append(bytes, static_cast<size_t>(read));
    size_t known = std::min(got.size(), header.size());
    if (got.compare(0, known, header, 0, known) != 0) {
      dropped_.Add("with another protocol");
      return false;
    }
    if (got.size() < header.size() + kHelloBytes) return true;
    Judge(got.substr(header.size()), newcomer);
    return false;
  }

  void Judge(std::string_view bytes, Newcomer* newcomer) {
    std::optional<Hello> hello =
        ReadHello(bytes, options_.secret, newcomer->challenge);
    std::string why = "with another secret";
    if (hello.has_value()) why = Obstacle(*hello);
    if (!why.empty()) {
      dropped_.Add(why);
      newcomer->socket->Send(kRefuse, "it comes " + why, 0).IgnoreError();
      return;
    }
    std::string welcome =
        SignWelcome(*hello, options_.secret, newcomer->challenge);
    // The rank tries again if this fails.
    if (newcomer->socket->Send(kWelcome, welcome, kTellSeconds).ok()) {
      ranks_[hello->rank] = std::move(newcomer->socket);
    }
  }

  std::string Obstacle(const Hello& hello) const {
    if (hello.size != options_.size || hello.rank < 1 ||
        hello.rank >= hello.size) {
      return fmt::format("as rank {} of {}, to a world of {}", hello.rank,
                         hello.size, options_.size);
    }
    if (ranks_[hello.rank] == nullptr) return "";
    return fmt::format("as rank {}, which is there already", hello.rank);
  }

  const TcpWorldOptions& options_;
  std::unique_ptr<Listener> listener_;
  std::deque<Newcomer> newcomers_;  // the oldest first
  std::vector<std::unique_ptr<Socket>> ranks_;
  std::vector<int64_t> missing_;
  Dropped dropped_;
};

// Error PermissionDenied: rank 0 says why it lets this rank not in; others may
// be of somebody else who listens there, or of a connection that ended.
absl::Status Introduce(const TcpWorldOptions& options, double left_s,
                       Socket* socket) {
  ASYRA_ASSIGN_OR_RETURN(Message challenge, socket->Receive(left_s, left_s));
  if (challenge.kind != kChallenge || challenge.bytes.size() != kNonceBytes) {
    return absl::UnavailableError("what it says is no challenge");
  }
  Hello hello{options.rank, options.size, MakeNonce()};
  ASYRA_RETURN_IF_ERROR(socket->Send(
      kHello, SignHello(hello, options.secret, challenge.bytes), left_s));
  ASYRA_ASSIGN_OR_RETURN(Message answer, socket->Receive(left_s, left_s));
  if (answer.kind == kRefuse) {
    return absl::PermissionDeniedError(answer.bytes);
  }
  bool known = answer.kind == kWelcome &&
               SameSecret(answer.bytes,
                          SignWelcome(hello, options.secret, challenge.bytes));
  if (known) return absl::OkStatus();
  return absl::UnavailableError("it does not know the secret of this job");
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Socket>>> AcceptRanks(
    const TcpWorldOptions& options) {
  return Reception(options).AcceptAll();
}

absl::StatusOr<std::unique_ptr<Socket>> JoinRanks(
    const TcpWorldOptions& options) {
  auto until = Clock::now() + Seconds(options.timeout_s);
  std::string last;  // why the try before failed
  while (true) {
    double left_s = Seconds(until - Clock::now()).count();
    absl::StatusOr<std::unique_ptr<Socket>> socket = Socket::Connect(
        options.host, options.port, last.empty() ? options.timeout_s : left_s);
    if (absl::IsNotFound(socket.status())) return socket.status();
    if (!socket.ok() && last.empty()) {
      return absl::DeadlineExceededError(fmt::format(
          "rank 0 has not come to {} port {} within {:g} s: nobody listens",
          options.host, options.port, options.timeout_s));
    }
    if (!socket.ok()) {
      return absl::DeadlineExceededError(fmt::format(
          "rank 0 has not let this rank in at {} port {} within {:g} s: {}",
          options.host, options.port, options.timeout_s, last));
    }
    left_s = std::max(Seconds(until - Clock::now()).count(), kTellSeconds);
    absl::Status answer = Introduce(options, left_s, socket->get());
    if (answer.ok()) return socket;
    if (absl::IsPermissionDenied(answer)) {
      return Invalid("rank 0 at {}:{} does not let this rank in: {}",
                     options.host, options.port, MessageOf(answer));
    }
    last = MessageOf(answer);
    std::this_thread::sleep_for(kTryAgainAfter);
  }
}

}  // namespace asyra
