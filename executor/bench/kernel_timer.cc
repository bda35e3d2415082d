#include "executor/bench/kernel_timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "executor/bench/use_memory.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;

double UsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin)
      .count();
}

// One kernel and a stream to run it on.
class Trial {
 public:
  explicit Trial(Device& device) : device_(device) {}

  absl::Status Prepare(const KernelUse& use, const UseMemory::Options& memory) {
    ASYRA_ASSIGN_OR_RETURN(kernel_, device_.PrepareKernel(use));
    if (!kernel_->is_native()) {
      return Unimplemented("{} has no kernel for this use", device_.name());
    }
    ASYRA_ASSIGN_OR_RETURN(stream_, device_.CreateStream("compute", &failure_));
    begin_ = device_.CreateEvent(/*timed=*/true);
    end_ = device_.CreateEvent(/*timed=*/true);
    ASYRA_ASSIGN_OR_RETURN(
        memory_, UseMemory::Create(use, kernel_->workspace_bytes(), memory,
                                   device_, *stream_));
    for (int set = 0; set < memory_->sets(); ++set) {
      args_.push_back(memory_->args(set));
    }
    return absl::OkStatus();
  }

  void Launch(int launches) {
    for (int i = 0; i < launches; ++i) {
      kernel_->Launch(args_[i % args_.size()], *stream_);
    }
  }

  absl::StatusOr<std::unique_ptr<Recording>> Record(int launches) {
    Stream* streams[] = {stream_.get()};
    return device_.Record(streams, [this, launches] { Launch(launches); });
  }

  absl::Status Finish() {
    ASYRA_RETURN_IF_ERROR(stream_->Synchronize());
    return failure_.status();
  }

  // Of all that `enqueue` enqueues.
  template <typename Enqueue>
  absl::StatusOr<double> DeviceUs(Enqueue enqueue) {
    stream_->Record(*begin_);
    enqueue();
    stream_->Record(*end_);
    ASYRA_RETURN_IF_ERROR(Finish());
    return end_->UsSince(*begin_);
  }

 private:
  Device& device_;
  Failure failure_;
  std::unique_ptr<UseMemory> memory_;
  std::vector<KernelArgs> args_;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Event> begin_, end_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace

absl::StatusOr<Timing> TimeKernel(Device& device, const KernelUse& use,
                                  const KernelTimerOptions& options) {
  Trial trial(device);
  ASYRA_RETURN_IF_ERROR(trial.Prepare(
      use, {options.apart_bytes, options.max_launches, options.index_limit}));
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Recording> one, trial.Record(1));
  auto once = [&] { one->Replay(); };
  ASYRA_RETURN_IF_ERROR(trial.DeviceUs(once).status());  // warms up
  ASYRA_ASSIGN_OR_RETURN(double one_us, trial.DeviceUs(once));
  auto launches = static_cast<int>(
      std::clamp<double>(std::ceil(options.sample_us / std::max(one_us, 1e-3)),
                         1, options.max_launches));
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Recording> recording,
                         trial.Record(launches));
  auto replay = [&] { recording->Replay(); };
  ASYRA_RETURN_IF_ERROR(trial.DeviceUs(replay).status());
  std::vector<double> samples;
  for (int i = 0; i < options.samples; ++i) {
    ASYRA_ASSIGN_OR_RETURN(double us, trial.DeviceUs(replay));
    samples.push_back(us / launches);
  }
  return TimingOf(std::move(samples));
}

absl::StatusOr<LaunchTimes> TimeLaunches(Device& device, const KernelUse& use) {
  constexpr int kLaunches = 200, kSamples = 9;
  Trial trial(device);
  ASYRA_RETURN_IF_ERROR(trial.Prepare(use, {}));
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Recording> recording,
                         trial.Record(kLaunches));
  trial.Launch(kLaunches);
  recording->Replay();
  ASYRA_RETURN_IF_ERROR(trial.Finish());
  std::vector<double> eager, recorded, device_us;
  for (int i = 0; i < kSamples; ++i) {
    auto begin = Clock::now();
    trial.Launch(kLaunches);
    eager.push_back(UsSince(begin) / kLaunches);
    ASYRA_RETURN_IF_ERROR(trial.Finish());
    begin = Clock::now();
    recording->Replay();
    recorded.push_back(UsSince(begin) / kLaunches);
    ASYRA_RETURN_IF_ERROR(trial.Finish());
    ASYRA_ASSIGN_OR_RETURN(double us,
                           trial.DeviceUs([&] { recording->Replay(); }));
    device_us.push_back(us / kLaunches);
  }
  return LaunchTimes{.eager_us = TimingOf(eager).us,
                     .recorded_us = TimingOf(recorded).us,
                     .device_us = TimingOf(device_us).us};
}

}  // namespace asyra
