#include "executor/cpu/cpu_stream.h"

#include <pthread.h>

#include "executor/cpu/threads.h"

namespace asyra {
namespace {

double NowUs() {
  return std::chrono::duration<double, std::micro>(
             CpuClock::now().time_since_epoch())
      .count();
}

}  // namespace

CpuStream::CpuStream(std::string_view name, int threads, Failure* failure)
    : failure_(failure), thread_([this, threads] { Loop(threads); }) {
  std::string short_name(name.substr(0, 15));  // the kernel keeps 15 bytes
  pthread_setname_np(thread_.native_handle(), short_name.c_str());
}

CpuStream::~CpuStream() {
  Enqueue({});  // the end
  thread_.join();
}

void CpuStream::Enqueue(const CpuCommand& command) {
  done_.WaitFor(enqueued_ + 1 - kCapacity);
  ring_[enqueued_ % kCapacity] = command;
  ++enqueued_;
  published_.Add();
}

void CpuStream::Loop(int threads) {
  SetComputeThreads(threads);
  for (uint32_t next = 0;; ++next) {
    published_.WaitFor(next + 1);
    CpuCommand command = ring_[next % kCapacity];
    if (command.run == nullptr) return;
    if (command.always || !failure_->happened()) {
      absl::Status status = command.run(command.a, command.b, command.n);
      if (!status.ok()) failure_->Report(status);
    }
    done_.Add();
  }
}

void CpuStream::Record(Event& event) {
  auto& cpu_event = static_cast<CpuEvent&>(event);
  ++cpu_event.recorded_;
  auto happen = [](void* a, const void*, int64_t) {
    auto* at = static_cast<CpuEvent*>(a);
    if (at->timed_) at->time_us_ = NowUs();
    at->happened_.Add();
    return absl::OkStatus();
  };
  Enqueue({.run = happen, .a = &event, .always = true});
}

void CpuStream::Wait(Event& event) {
  auto wait = [](void* a, const void*, int64_t n) {
    static_cast<CpuEvent*>(a)->happened_.WaitFor(static_cast<uint32_t>(n));
    return absl::OkStatus();
  };
  Enqueue({.run = wait,
           .a = &event,
           .n = static_cast<CpuEvent&>(event).recorded_,
           .always = true});
}

absl::Status CpuStream::Synchronize() {
  done_.WaitFor(enqueued_);
  return absl::OkStatus();
}

}  // namespace asyra
