// Sends messages to all peers, none of which waits for another: what a peer
// does not take at once is sent by a thread, which also tells all of them now
// and then that this process is alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "executor/tcp/socket.h"

namespace asyra {

// Thread-safe.
class Sender {
 public:
  // Called by the thread with a peer that takes nothing for the timeout; what
  // was to be sent to it is dropped.
  using Stalled = std::function<void(int64_t peer, const absl::Status& why)>;

  // `peers`, null where there is none, outlive it.
  Sender(const std::vector<std::unique_ptr<Socket>>& peers, double timeout_s,
         Stalled stalled);
  // Stops, and drops what has not been sent.
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // Never waits. A peer that is gone is left to who listens to it.
  void Send(int64_t peer, uint32_t kind, std::string bytes);
  // Ends the thread, once: `stalled` is not called any more.
  void Stop();
  // Waits until all is sent, or the time is over.
  void Flush(double within_s);

  // Seconds from one sign of life to the next.
  static double BeatSeconds(double timeout_s);

 private:
  struct Item {
    std::string header, bytes;
    size_t sent = 0;
  };
  struct Outbox {
    explicit Outbox(int fd) : fd(fd), progress(0) {}
    const int fd;
    std::mutex mutex;  // of what follows
    std::deque<Item> items;
    Progress progress;
    bool gone = false;
  };

  void Push(Outbox* outbox) const;
  void Wake();
  void Run();
  // Waits for peers that take more, and sends it.
  void Serve(double most_s);
  void DropStalled();
  bool Idle();

  const double timeout_s_;
  const Stalled stalled_;
  std::vector<std::unique_ptr<Outbox>> outboxes_;  // by peer
  int wake_ = -1;                                  // an eventfd
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace asyra
