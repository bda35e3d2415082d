#include "executor/tcp/sender.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "executor/tcp/wire.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

}  // namespace

double Sender::BeatSeconds(double timeout_s) {
  return std::clamp(timeout_s / 8, 0.02, 1.0);
}

Sender::Sender(const std::vector<std::unique_ptr<Socket>>& peers,
               double timeout_s, Stalled stalled)
    : timeout_s_(timeout_s),
      stalled_(std::move(stalled)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (const auto& peer : peers) {
    outboxes_.push_back(peer == nullptr ? nullptr
                                        : std::make_unique<Outbox>(peer->fd()));
  }
  thread_ = std::thread([this] { Run(); });
}

Sender::~Sender() {
  Stop();
  close(wake_);
}

void Sender::Stop() {
  if (!thread_.joinable()) return;
  ends_.store(true);
  Wake();
  thread_.join();
}

void Sender::Wake() {
  uint64_t one = 1;
  // A counter that is full wakes too.
  [[maybe_unused]] ssize_t written = write(wake_, &one, sizeof(one));
}

void Sender::Send(int64_t peer, uint32_t kind, std::string bytes) {
  Outbox* outbox = outboxes_[peer].get();
  if (outbox == nullptr) return;
  bool left = false;
  {
    std::lock_guard lock(outbox->mutex);
    if (outbox->gone) return;
    bool first = outbox->items.empty();
    size_t size = bytes.size();
    outbox->items.push_back({HeaderOf(kind, size), std::move(bytes)});
    if (first) {
      outbox->progress = Progress(timeout_s_);
      Push(outbox);
      left = !outbox->items.empty();
    }
  }
  if (left) Wake();
}

// Sends as much as is taken without waiting; the lock is held.
void Sender::Push(Outbox* outbox) const {
  while (!outbox->items.empty()) {
    Item& item = outbox->items.front();
    size_t of_header = std::min(item.sent, item.header.size());
    size_t of_bytes = item.sent - of_header;
    std::array<iovec, 2> parts = {
        {{item.header.data() + of_header, item.header.size() - of_header},
         {item.bytes.data() + of_bytes, item.bytes.size() - of_bytes}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    // No SIGPIPE if the other end has closed.
    ssize_t sent = sendmsg(outbox->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) {
      outbox->gone = true;
      outbox->items.clear();
      return;
    }
    outbox->progress.Moved(static_cast<size_t>(sent));
    item.sent += static_cast<size_t>(sent);
    if (item.sent < item.header.size() + item.bytes.size()) continue;
    outbox->items.pop_front();
    outbox->progress = Progress(timeout_s_);
  }
}

void Sender::Run() {
  double beat_s = BeatSeconds(timeout_s_);
  auto beat = Clock::now();
  while (!ends_.load()) {
    double left_s = beat_s - Seconds(Clock::now() - beat).count();
    if (left_s > 0) {
      Serve(left_s);
      DropStalled();
      continue;
    }
    beat = Clock::now();
    for (size_t peer = 0; peer < outboxes_.size(); ++peer) {
      Outbox* outbox = outboxes_[peer].get();
      if (outbox == nullptr) continue;
      std::unique_lock lock(outbox->mutex);
      bool idle = outbox->items.empty();
      lock.unlock();
      // A longer message is a sign of life itself.
      if (idle) Send(static_cast<int64_t>(peer), kAlive, "");
    }
  }
}

void Sender::Serve(double most_s) {
  std::vector<pollfd> polled = {{wake_, POLLIN, 0}};
  std::vector<Outbox*> waiting = {nullptr};
  for (auto& outbox : outboxes_) {
    if (outbox == nullptr) continue;
    std::lock_guard lock(outbox->mutex);
    if (outbox->items.empty()) continue;
    polled.push_back({outbox->fd, POLLOUT, 0});
    waiting.push_back(outbox.get());
    most_s = std::clamp(outbox->progress.left_s(), 0.0, most_s);
  }
  if (poll(polled.data(), polled.size(), static_cast<int>(most_s * 1e3) + 1) <=
      0) {
    return;
  }
  uint64_t woken = 0;
  [[maybe_unused]] ssize_t got = read(wake_, &woken, sizeof(woken));
  for (size_t i = 1; i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    std::lock_guard lock(waiting[i]->mutex);
    Push(waiting[i]);
  }
}

void Sender::DropStalled() {
  for (size_t peer = 0; peer < outboxes_.size(); ++peer) {
    Outbox* outbox = outboxes_[peer].get();
    if (outbox == nullptr) continue;
    size_t left = 0;
    {
      std::lock_guard lock(outbox->mutex);
      if (outbox->items.empty() || outbox->progress.left_s() > 0) continue;
      const Item& item = outbox->items.front();
      left = item.header.size() + item.bytes.size() - item.sent;
      outbox->gone = true;
      outbox->items.clear();
    }
    stalled_(static_cast<int64_t>(peer),
             absl::DeadlineExceededError(fmt::format(
                 "it takes no messages: {} bytes of one stand still for {:g} s",
                 left, timeout_s_)));
  }
}

bool Sender::Idle() {
  for (auto& outbox : outboxes_) {
    if (outbox == nullptr) continue;
    std::lock_guard lock(outbox->mutex);
    if (!outbox->items.empty()) return false;
  }
  return true;
}

void Sender::Flush(double within_s) {
  auto until = Clock::now() + Seconds(within_s);
  while (!Idle() && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace asyra
