// A stream of the cpu is a thread that takes commands from a ring.
#pragma once

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "executor/cpu/counter.h"
#include "executor/failure.h"
#include "executor/stream.h"

namespace asyra {

class CpuEvent : public Event {
 public:
  explicit CpuEvent(bool timed) : timed_(timed) {}
  double UsSince(const Event& earlier) const override {
    return time_us_ - static_cast<const CpuEvent&>(earlier).time_us_;
  }

 private:
  friend class CpuStream;
  const bool timed_;
  // Records enqueued, by the host thread; captured ones count once.
  uint32_t recorded_ = 0;
  Counter happened_;  // records that have happened
  double time_us_ = 0;
};

// A command of a stream: a function of two addresses, which it does not own,
// and an integer.
struct CpuCommand {
  absl::Status (*run)(void* a, const void* b, int64_t n) = nullptr;
  void* a = nullptr;
  const void* b = nullptr;
  int64_t n = 0;
  bool always = false;  // even after a failure
};

// Commands captured on one stream, to be enqueued again.
struct CpuCapture {
  std::vector<CpuCommand> commands;
  uint32_t replays = 0;  // that have ended, by the stream's thread
};

class CpuStream : public Stream {
 public:
  // Computes with `threads` threads of its own; `failure` outlives it. Streams
  // of collectives have a higher priority.
  CpuStream(std::string_view name, StreamUse use, int threads,
            Failure* failure);
  ~CpuStream() override;  // runs what was enqueued first

  void Record(Event& event) override;
  void Wait(Event& event) override;
  // Neither calls `check`: kernels that wait detect failures themselves.
  absl::Status Synchronize(const WaitCheck& check) override;
  absl::Status SynchronizeUpTo(Event& event, const WaitCheck& check) override;

  // Redirects commands to `capture`, from BeginCapture to EndCapture, instead
  // of running them. Each Replay enqueues all of them as one command; `capture`
  // outlives the replays. Streams that wait for each other are captured and
  // replayed together.
  void BeginCapture(CpuCapture* capture) { capturing_ = capture; }
  void EndCapture() { capturing_ = nullptr; }
  void Replay(CpuCapture* capture);

  // Waits while the ring is full, but never for work on another stream that was
  // not enqueued before.
  void Enqueue(const CpuCommand& command);

 private:
  void Loop(int threads);
  void Execute(const CpuCommand& command) const;
  static absl::Status Happen(void* event, const void*, int64_t);
  static absl::Status Await(void* event, const void* capture, int64_t record);
  static absl::Status RunCaptured(void* capture, const void* stream, int64_t);

  static constexpr uint32_t kCapacity = 4096;
  std::array<CpuCommand, kCapacity> ring_;
  CpuCapture* capturing_ = nullptr;
  uint32_t enqueued_ = 0;  // by the host thread
  Counter published_;      // commands that may be taken
  Counter done_;           // commands that have run
  Failure* failure_;
  std::thread thread_;
};

}  // namespace asyra
