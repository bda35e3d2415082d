#include "executor/cpu/cpu_stream.h"

#include <pthread.h>

#include "executor/cpu/threads.h"
#include "ir/support/out_of_memory.h"

namespace asyra {
namespace {

double NowUs() {
  return std::chrono::duration<double, std::micro>(
             CpuClock::now().time_since_epoch())
      .count();
}

// Streams of this process: while there is a core for each, spinning does not
// slow the others.
std::atomic<unsigned> streams = 0;

bool MayWaitAwake() {
  static const unsigned cores = std::thread::hardware_concurrency();
  return streams.load(std::memory_order_relaxed) <= cores;
}

}  // namespace

CpuStream::CpuStream(std::string_view name, StreamUse use, int threads,
                     Failure* failure)
    : failure_(failure), thread_([this, threads, use] {
        if (use == StreamUse::kCollectives) RunFirst();
        Loop(threads);
      }) {
  streams.fetch_add(1, std::memory_order_relaxed);
  std::string short_name(name.substr(0, 15));  // the kernel keeps 15 bytes
  pthread_setname_np(thread_.native_handle(), short_name.c_str());
}

CpuStream::~CpuStream() {
  Enqueue({});  // the end
  thread_.join();
  streams.fetch_sub(1, std::memory_order_relaxed);
}

void CpuStream::Enqueue(const CpuCommand& command) {
  if (capturing_ != nullptr) {
    capturing_->commands.push_back(command);
    return;
  }
  done_.WaitFor(enqueued_ + 1 - kCapacity);
  ring_[enqueued_ % kCapacity] = command;
  ++enqueued_;
  published_.Add();
}

void CpuStream::Replay(CpuCapture* capture) {
  Enqueue({.run = RunCaptured, .a = capture, .b = this, .always = true});
}

absl::Status CpuStream::RunCaptured(void* capture, const void* stream,
                                    int64_t) {
  auto* captured = static_cast<CpuCapture*>(capture);
  const auto* self = static_cast<const CpuStream*>(stream);
  for (const CpuCommand& command : captured->commands) self->Execute(command);
  ++captured->replays;
  return absl::OkStatus();
}

void CpuStream::Execute(const CpuCommand& command) const {
  if (!command.always && failure_->happened()) return;
  absl::Status status = WithinMemory(
      [&] { return command.run(command.a, command.b, command.n); });
  if (!status.ok()) failure_->Report(status);
}

void CpuStream::Loop(int threads) {
  SetComputeThreads(threads);
  for (uint32_t next = 0;; ++next) {
    published_.WaitFor(next + 1);
    CpuCommand command = ring_[next % kCapacity];
    if (command.run == nullptr) return;
    Execute(command);
    done_.Add();
  }
}

absl::Status CpuStream::Happen(void* event, const void*, int64_t) {
  auto* at = static_cast<CpuEvent*>(event);
  if (at->timed_) at->time_us_ = NowUs();
  at->happened_.Add();
  return absl::OkStatus();
}

void CpuStream::Record(Event& event) {
  ++static_cast<CpuEvent&>(event).recorded_;
  Enqueue({.run = Happen, .a = &event, .always = true});
}

// Captured work has been replayed as often as that which records the event was
// before this time.
absl::Status CpuStream::Await(void* event, const void* capture,
                              int64_t record) {
  auto target = static_cast<uint32_t>(record);
  if (capture != nullptr) {
    target += static_cast<const CpuCapture*>(capture)->replays;
  }
  Counter& happened = static_cast<CpuEvent*>(event)->happened_;
  MayWaitAwake() ? happened.WaitAwakeFor(target) : happened.WaitFor(target);
  return absl::OkStatus();
}

void CpuStream::Wait(Event& event) {
  uint32_t record = static_cast<CpuEvent&>(event).recorded_;
  if (record == 0) return;  // it has happened
  Enqueue({.run = Await,
           .a = &event,
           .b = capturing_,
           .n = record,
           .always = true});
}

absl::Status CpuStream::Synchronize(const WaitCheck&) {
  done_.WaitFor(enqueued_);
  return absl::OkStatus();
}

absl::Status CpuStream::SynchronizeUpTo(Event& event, const WaitCheck&) {
  auto& at = static_cast<CpuEvent&>(event);
  at.happened_.WaitFor(at.recorded_);
  return absl::OkStatus();
}

}  // namespace asyra
