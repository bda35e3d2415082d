// Steps of chunk plans that run on threads of the cpu device: part of
// executor/comm/thread_plan.h.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <thread>

#include "executor/comm/plan_link.h"
#include "executor/comm/shared_world.h"
#include "executor/cpu/cpu_stream.h"

namespace asyra {

class CpuAction : public PlanAction {
 public:
  void Enqueue(Stream& stream) final {
    auto run = [](void* action, const void*, int64_t) {
      return static_cast<CpuAction*>(action)->Run();
    };
    static_cast<CpuStream&>(stream).Enqueue({.run = run, .a = this});
  }

 private:
  virtual absl::Status Run() = 0;  // on the stream's thread
};

// Data that all actions of a link use.
struct PlanContext {
  std::shared_ptr<SharedWorld> world;
  int64_t rank = 0;
  std::string label;
};

// Random delays, for tests.
class Jitter {
 public:
  Jitter(double most_us, uint32_t seed) : most_us_(most_us), random_(seed) {}
  void Sleep() {
    if (most_us_ <= 0) return;
    double us = std::uniform_real_distribution<>(0, most_us_)(random_);
    std::this_thread::sleep_for(Seconds(us / 1e6));
  }

 private:
  double most_us_;
  std::minstd_rand random_;
};

// Waits until a counter that rank `from` adds to has reached `target`. Errors:
// another rank has failed; the timeout, naming `from` or who is behind it.
absl::Status AwaitCounter(const PlanContext& context, Counter& counter,
                          uint32_t target, int64_t from);

}  // namespace asyra
