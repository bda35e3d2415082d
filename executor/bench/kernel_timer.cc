#include "executor/bench/kernel_timer.h"

#include <algorithm>
#include <chrono>

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
    ASYRA_ASSIGN_OR_RETURN(
        stream_,
        device_.CreateStream("compute", StreamUse::kCompute, &failure_));
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

  // Returns the time of one launch, as it is replayed.
  absl::StatusOr<double> OneUs() {
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Recording> one, Record(1));
    auto once = [&] { one->Replay(); };
    ASYRA_RETURN_IF_ERROR(DeviceUs(once).status());  // warms up
    return DeviceUs(once);
  }

  // A replay between the two events, after the work of `before`.
  void Enqueue(Recording& recording, const Trial* before) {
    if (before != nullptr) stream_->Wait(*before->end_);
    stream_->Record(*begin_);
    recording.Replay();
    stream_->Record(*end_);
  }
  // Returns the time between the two events.
  double us() const { return end_->UsSince(*begin_); }

  // Returns the device's time for all that `enqueue` enqueues.
  template <typename Enqueue>
  absl::StatusOr<double> DeviceUs(Enqueue enqueue) {
    stream_->Record(*begin_);
    enqueue();
    stream_->Record(*end_);
    ASYRA_RETURN_IF_ERROR(Finish());
    return us();
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

// The clock of a device that works, in the mean over times at which it is
// asked.
class MeanClock {
 public:
  explicit MeanClock(Device& device) : device_(device) {}

  void Ask() {
    double mhz = device_.Power().mhz;
    if (mhz <= 0) return;
    sum_ += mhz;
    ++count_;
  }
  // 0: not known.
  double mhz() const { return count_ == 0 ? 0 : sum_ / count_; }

 private:
  Device& device_;
  double sum_ = 0;
  int count_ = 0;
};

// Kernels that run in turn on one stream after the other.
class Mix {
 public:
  explicit Mix(Device& device) : device_(device) {}

  bool empty() const { return parts_.empty(); }

  // Errors: those of Trial::Prepare, which leave the mix as it was.
  absl::Status Add(const MixCall& call, double call_us) {
    auto trial = std::make_unique<Trial>(device_);
    const KernelTimerOptions alone;
    ASYRA_RETURN_IF_ERROR(trial->Prepare(
        call.use, {alone.apart_bytes, alone.max_launches, call.index_limit}));
    ASYRA_ASSIGN_OR_RETURN(double one_us, trial->OneUs());
    int launches =
        std::max(LaunchesFor(call_us, one_us, alone.max_launches), call.count);
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Recording> recording,
                           trial->Record(launches));
    parts_.push_back({std::move(trial), std::move(recording), launches});
    return absl::OkStatus();
  }

  // All of them once: the time of one launch of each. Each waits for the one
  // before on the device, not on the host. `clock` is asked meanwhile.
  absl::StatusOr<std::vector<double>> Round(MeanClock* clock = nullptr) {
    const Trial* before = nullptr;
    for (const Part& part : parts_) {
      part.trial->Enqueue(*part.recording, before);
      before = part.trial.get();
    }
    if (clock != nullptr) clock->Ask();
    std::vector<double> us;
    for (const Part& part : parts_) {
      ASYRA_RETURN_IF_ERROR(part.trial->Finish());
      us.push_back(part.trial->us() / part.launches);
    }
    return us;
  }

 private:
  struct Part {
    std::unique_ptr<Trial> trial;
    std::unique_ptr<Recording> recording;
    int launches;
  };
  Device& device_;
  std::vector<Part> parts_;
};

}  // namespace

absl::StatusOr<Timing> TimeKernel(Device& device, const KernelUse& use,
                                  const KernelTimerOptions& options) {
  Trial trial(device);
  ASYRA_RETURN_IF_ERROR(trial.Prepare(
      use, {options.apart_bytes, options.max_launches, options.index_limit}));
  ASYRA_ASSIGN_OR_RETURN(double one_us, trial.OneUs());
  int launches = LaunchesFor(options.sample_us, one_us, options.max_launches);
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Recording> recording,
                         trial.Record(launches));
  MeanClock clock(device);
  auto replay = [&] { recording->Replay(); };
  ASYRA_RETURN_IF_ERROR(trial.DeviceUs(replay).status());
  std::vector<double> samples;
  for (int i = 0; i < options.samples; ++i) {
    ASYRA_ASSIGN_OR_RETURN(double us, trial.DeviceUs(replay));
    clock.Ask();
    samples.push_back(us / launches);
  }
  Timing timing = TimingOf(std::move(samples));
  timing.mhz = clock.mhz();
  return timing;
}

absl::StatusOr<std::vector<absl::StatusOr<Timing>>> TimeMix(
    Device& device, absl::Span<const MixCall> calls,
    const MixTimerOptions& options) {
  Mix mix(device);
  std::vector<absl::StatusOr<Timing>> timings;
  for (const MixCall& call : calls) {
    // Calls that can be prepared are timed below.
    absl::Status status = mix.Add(call, options.call_us);
    timings.push_back(status.ok() ? absl::StatusOr<Timing>(Timing())
                                  : absl::StatusOr<Timing>(status));
  }
  if (mix.empty()) return timings;
  auto begin = Clock::now();
  while (UsSince(begin) < options.warmup_s * 1e6) {
    ASYRA_RETURN_IF_ERROR(mix.Round().status());
  }
  MeanClock clock(device);
  std::vector<std::vector<double>> samples;  // of each round
  for (int i = 0; i < options.samples; ++i) {
    ASYRA_ASSIGN_OR_RETURN(samples.emplace_back(), mix.Round(&clock));
  }
  size_t next = 0;
  for (absl::StatusOr<Timing>& timing : timings) {
    if (!timing.ok()) continue;
    std::vector<double> of_call;
    for (const auto& round : samples) of_call.push_back(round[next]);
    timing = TimingOf(std::move(of_call));
    timing->mhz = clock.mhz();
    ++next;
  }
  return timings;
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
