#include "executor/bench/collective_timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>

#include "executor/bench/use_memory.h"
#include "executor/comm/thread_world.h"
#include "executor/plan_kernel.h"
#include "ir/copy_engine.h"
#include "ir/overlap.h"
#include "ir/parser.h"
#include "ir/plans/fused_reduction.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;

// Time that the device barriers before a measurement last, so that all hosts
// have enqueued it by then.
constexpr double kMeetUs = 1000;
constexpr int kMostBarriers = 512;
// Attempts, when a host was later than that.
constexpr int kAttempts = 4;
// Shorter ones are timed in a row, so that events and remaining differences
// between ranks have little influence.
constexpr double kRowUs = 1000;
constexpr int kMostInRow = 20;
// Time of pairs between two device barriers, so that these count for little.
constexpr double kPairUs = 20000;
constexpr int kMostOfPair = 100;
constexpr int kMostSettling = 1000;

// Groups of `ranks` neighbours of `devices`.
absl::StatusOr<Mesh> GroupsOf(int64_t devices, int64_t ranks) {
  if (devices == 1 && ranks == 1) return Mesh();
  if (ranks < 2 || devices % ranks != 0) {
    return Invalid("{} devices are no groups of {}", devices, ranks);
  }
  if (devices == ranks) return Mesh::Create({{"x", ranks}});
  return Mesh::Create({{"y", devices / ranks}, {"x", ranks}});
}

// A kernel with the memory it runs on.
struct Prepared {
  std::unique_ptr<Kernel> kernel;
  std::unique_ptr<UseMemory> memory;
  KernelArgs args;
  bool collective = false;

  absl::Status Reserve(const KernelUse& use, Device& device, Stream& stream,
                       int64_t index_limit = 4) {
    ASYRA_ASSIGN_OR_RETURN(
        memory,
        UseMemory::Create(use, kernel->workspace_bytes(),
                          {.index_limit = index_limit}, device, stream));
    args = memory->args(0);
    return kernel->Bind(args);
  }
  // A row of launches.
  absl::StatusOr<std::unique_ptr<Recording>> Record(int count, Device& device,
                                                    Stream& stream) {
    Stream* streams[] = {&stream};
    return device.Record(streams, [this, count, &stream] {
      for (int i = 0; i < count; ++i) kernel->Launch(args, stream);
    });
  }
};

class Timer : public RankTimer {
 public:
  Timer(Communicator& control, std::shared_ptr<Device> device,
        std::unique_ptr<Communicator> connected)
      : device_(std::move(device)),
        connected_(std::move(connected)),
        world_(connected_ == nullptr ? control : *connected_),
        failure_([this](const absl::Status& status) { world_.Abort(status); }) {
  }

  absl::Status Prepare() {
    ASYRA_ASSIGN_OR_RETURN(
        compute_,
        device_->CreateStream("compute", StreamUse::kCompute, &failure_));
    ASYRA_ASSIGN_OR_RETURN(
        comm_, device_->CreateStream("x", StreamUse::kCollectives, &failure_));
    for (auto* event : {&meet_begin_, &met_, &begin_, &end_, &compute_begin_,
                        &compute_end_}) {
      *event = device_->CreateEvent(/*timed=*/true);
    }
    return absl::OkStatus();
  }

  int64_t rank() const override { return world_.rank(); }

  absl::StatusOr<Timing> TimeCollective(const CollectiveCall& call,
                                        int samples) override {
    ASYRA_ASSIGN_OR_RETURN(KernelOfCall found, PrepareKernel(call));
    if (found.kernel->queues() > 0) {
      std::vector<KernelOfCall> alone;
      alone.push_back(std::move(found));
      return TimeKernels({{call.text, {}}}, std::move(alone), samples);
    }
    ASYRA_ASSIGN_OR_RETURN(Prepared prepared, Reserved(std::move(found)));
    return TimeRows(prepared, *comm_, samples, &Timer::CollectiveUs);
  }

  absl::StatusOr<PairTiming> TimePair(const PairCall& pair,
                                      int samples) override {
    ASYRA_ASSIGN_OR_RETURN(Prepared collective,
                           PrepareCollective(pair.collective));
    Prepared compute;
    ASYRA_ASSIGN_OR_RETURN(compute.kernel,
                           device_->PrepareKernel(pair.compute.use));
    ASYRA_RETURN_IF_ERROR(compute.Reserve(pair.compute.use, *device_, *compute_,
                                          pair.compute.index_limit));
    PairTiming result;
    ASYRA_ASSIGN_OR_RETURN(Timing alone, TimeRows(collective, *comm_, samples,
                                                  &Timer::CollectiveUs));
    result.collective_us = alone.us;
    ASYRA_ASSIGN_OR_RETURN(
        alone, TimeRows(compute, *compute_, samples, &Timer::ComputeUs));
    ASYRA_ASSIGN_OR_RETURN(result.compute_us, Largest(alone.us));
    double once = std::max(result.compute_us, result.collective_us);
    int collectives = LaunchesFor(std::max(2 * once, kPairUs / 3),
                                  result.collective_us, kMostOfPair);
    // Collectives take longer beside computation.
    constexpr double kLonger = 3;
    auto computes = static_cast<int>(std::ceil(
        kLonger * collectives * result.collective_us / result.compute_us));
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Recording> computing,
                           compute.Record(computes, *device_, *compute_));
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Recording> moving,
                           collective.Record(collectives, *device_, *comm_));
    // The clock of a GPU follows what it does with some delay.
    int settling = LaunchesFor(pair.settle_s * 1e6,
                               computes * result.compute_us, kMostSettling);
    std::vector<double> compute_us, collective_us;
    for (int i = -settling; i < samples; ++i) {
      ASYRA_ASSIGN_OR_RETURN(double us, ComputeUs(*computing));
      if (i >= 0) compute_us.push_back(us / computes);
    }
    ASYRA_ASSIGN_OR_RETURN(result.compute_us,
                           Largest(TimingOf(std::move(compute_us)).us));
    compute_us.clear();
    for (int i = -settling; i < samples; ++i) {
      ASYRA_RETURN_IF_ERROR(Beside(*computing, *moving));
      // The computations that did not run alone ran next to the collectives; at
      // least one.
      double window = end_->UsSince(*begin_);
      double total = compute_end_->UsSince(*compute_begin_);
      double beside =
          std::clamp(computes - (total - window) / result.compute_us, 1.0,
                     static_cast<double>(computes));
      ASYRA_ASSIGN_OR_RETURN(window, Largest(window));
      if (i < 0) continue;
      collective_us.push_back(window / collectives);
      compute_us.push_back(window / beside);
    }
    ASYRA_ASSIGN_OR_RETURN(result.compute_beside_us,
                           Largest(TimingOf(std::move(compute_us)).us));
    result.collective_beside_us = TimingOf(std::move(collective_us)).us;
    return result;
  }

  absl::StatusOr<LoadPower> PowerOf(const Load& load) override {
    LoadTimer timer(
        *device_, *comm_, [this] { return Wait(*comm_); },
        [this](double mine) { return Largest(mine); });
    if (load.text.empty()) return timer.Run(load, nullptr);
    CollectiveCall call = {load.text, static_cast<int>(world_.size())};
    ASYRA_ASSIGN_OR_RETURN(Prepared prepared, PrepareCollective(call));
    return timer.Run(load, [&](int launches) {
      return prepared.Record(launches, *device_, *comm_);
    });
  }

  absl::StatusOr<Timing> TimeSequence(absl::Span<const SequenceCall> calls,
                                      int samples) override {
    std::vector<KernelOfCall> kernels;
    for (const SequenceCall& call : calls) {
      ASYRA_ASSIGN_OR_RETURN(
          KernelOfCall found,
          PrepareKernel({call.text, static_cast<int>(world_.size())}));
      kernels.push_back(std::move(found));
    }
    return TimeKernels(calls, std::move(kernels), samples);
  }

  absl::StatusOr<int64_t> BytesToCarry(const CollectiveCall& call) override {
    ASYRA_RETURN_IF_ERROR(world_.Exchange("").status());
    int64_t before = device_->BytesInUse();
    // Prepare runs the collective once if that allocates memory.
    ASYRA_RETURN_IF_ERROR(PrepareKernel(call).status());
    ASYRA_RETURN_IF_ERROR(world_.Exchange("").status());
    auto taken = static_cast<double>(device_->BytesInUse() - before);
    ASYRA_ASSIGN_OR_RETURN(taken, Largest(taken));
    return static_cast<int64_t>(taken);
  }

  absl::StatusOr<bool> Agree(bool mine) override {
    ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> all,
                           world_.Exchange(mine ? "1" : "0"));
    return all[0] == "1";
  }

 private:
  // Records as many barriers in a row as last for kMeetUs.
  absl::Status PrepareMeeting() {
    constexpr int kFew = 16;
    auto all = static_cast<int>(world_.size());
    ASYRA_ASSIGN_OR_RETURN(
        barrier_, PrepareCollective(CollectiveOf(CollectiveKind::kAllReduce,
                                                 DType::kF32, 4 * all, all)));
    ASYRA_ASSIGN_OR_RETURN(meet_, barrier_.Record(kFew, *device_, *comm_));
    double few_us = 0;
    for (int i = 0; i < 2; ++i) {  // the first one warms up
      ASYRA_RETURN_IF_ERROR(world_.Exchange("").status());
      comm_->Record(*begin_);
      meet_->Replay();
      comm_->Record(*end_);
      ASYRA_RETURN_IF_ERROR(Wait(*comm_));
      ASYRA_ASSIGN_OR_RETURN(few_us, Largest(end_->UsSince(*begin_)));
    }
    int count = LaunchesFor(kMeetUs, few_us / kFew, kMostBarriers);
    ASYRA_ASSIGN_OR_RETURN(meet_, barrier_.Record(count, *device_, *comm_));
    return absl::OkStatus();
  }

  struct KernelOfCall {
    KernelUse use;
    std::unique_ptr<Kernel> kernel;
  };
  absl::StatusOr<Prepared> PrepareCollective(const CollectiveCall& call) {
    ASYRA_ASSIGN_OR_RETURN(KernelOfCall found, PrepareKernel(call));
    return Reserved(std::move(found));
  }
  absl::StatusOr<Prepared> Reserved(KernelOfCall found) {
    Prepared prepared;
    prepared.kernel = std::move(found.kernel);
    ASYRA_RETURN_IF_ERROR(prepared.Reserve(found.use, *device_, *comm_));
    return prepared;
  }

  // A kernel for each call.
  absl::StatusOr<Timing> TimeKernels(absl::Span<const SequenceCall> calls,
                                     std::vector<KernelOfCall> kernels,
                                     int samples) {
    std::vector<Prepared> prepared;
    std::vector<std::unique_ptr<Event>> ended;
    for (size_t i = 0; i < calls.size(); ++i) {
      KernelOfCall& found = kernels[i];
      found.kernel->set_label(calls[i].text);
      ASYRA_RETURN_IF_ERROR(GiveQueues(*found.kernel));
      Prepared& one = prepared.emplace_back();
      one.kernel = std::move(found.kernel);
      one.collective = found.use.def().collective != CollectiveKind::kNone;
      ASYRA_RETURN_IF_ERROR(one.Reserve(found.use, *device_, *compute_));
      ended.push_back(device_->CreateEvent(/*timed=*/false));
    }
    // They begin and end on the stream of the device barriers.
    std::unique_ptr<Event> begun = device_->CreateEvent(/*timed=*/false),
                           all_ended = device_->CreateEvent(/*timed=*/false);
    std::vector<Stream*> streams = {comm_.get(), compute_.get()};
    for (auto& queue : queues_) streams.push_back(queue.get());
    ASYRA_ASSIGN_OR_RETURN(
        std::unique_ptr<Recording> once, device_->Record(streams, [&] {
          comm_->Record(*begun);
          compute_->Wait(*begun);
          for (size_t i = 0; i < calls.size(); ++i) {
            Stream& on = prepared[i].collective ? *comm_ : *compute_;
            for (int before : calls[i].after) on.Wait(*ended[before]);
            prepared[i].kernel->Launch(prepared[i].args, on);
            on.Record(*ended[i]);
          }
          compute_->Record(*all_ended);
          comm_->Wait(*all_ended);
        }));
    return TimeReplays(*once, samples);
  }

  // Prepares the kernel of a call, also of an overlap, or of an op that
  // computes alone.
  absl::StatusOr<KernelOfCall> PrepareKernel(const CollectiveCall& call) {
    ASYRA_ASSIGN_OR_RETURN(Mesh mesh, GroupsOf(world_.size(), call.ranks));
    ASYRA_ASSIGN_OR_RETURN(ParsedCall parsed, ParseCall(call.text, mesh));
    ASYRA_ASSIGN_OR_RETURN(
        std::vector<Type> results,
        InferTypes(*parsed.def, parsed.attrs, parsed.operands, mesh));
    KernelUse use(*parsed.def, parsed.attrs, parsed.operands, results, mesh,
                  rank());
    if (IsOverlap(*parsed.def)) {
      return IsOneKernel(parsed.attrs)
                 ? PrepareOneKernel(std::move(use), mesh, call.text)
                 : PrepareOverlap(std::move(use), mesh);
    }
    if (parsed.def->collective == CollectiveKind::kNone) {
      ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                             device_->PrepareKernel(use));
      return KernelOfCall{std::move(use), std::move(kernel)};
    }
    const auto& axes = parsed.attrs.Get<AxisList>("axes");
    // The self-copy is not part of its time.
    CollectiveUse collective = {use, mesh.Group(rank(), axes), num_prepared_++,
                                call.text, /*split=*/true};
    if (AsksForCopyEngine(parsed.attrs)) {
      ASYRA_ASSIGN_OR_RETURN(std::string obstacle,
                             world_.CopyEngineObstacle(collective));
      if (!obstacle.empty()) {
        return Unimplemented("no copy engines carry it: {}", obstacle);
      }
    }
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                           world_.PrepareCollective(collective));
    return KernelOfCall{std::move(use), std::move(kernel)};
  }

  absl::StatusOr<KernelOfCall> PrepareOverlap(KernelUse use, const Mesh& mesh) {
    ASYRA_ASSIGN_OR_RETURN(
        bool carries,
        world_.CarriesPlans(use.attrs().Get<std::string>("transport")));
    if (!carries) return Unimplemented("ranks do not carry chunk plans");
    const AxisList axes = AxesOf(*BodyOf(use.attrs()));
    ASYRA_ASSIGN_OR_RETURN(
        std::unique_ptr<Kernel> kernel,
        PreparePlanKernel(use, mesh.Group(rank(), axes), *device_, world_));
    return KernelOfCall{std::move(use), std::move(kernel)};
  }

  absl::StatusOr<KernelOfCall> PrepareOneKernel(KernelUse use, const Mesh& mesh,
                                                const std::string& label) {
    CollectiveUse collective = {
        use, mesh.Group(rank(), AxesOf(*BodyOf(use.attrs()))), num_prepared_++,
        label};
    ASYRA_ASSIGN_OR_RETURN(std::string obstacle,
                           world_.OneKernelObstacle(collective));
    if (!obstacle.empty()) return Unimplemented("not one kernel: {}", obstacle);
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                           world_.PrepareOneKernel(collective));
    return KernelOfCall{std::move(use), std::move(kernel)};
  }

  absl::Status GiveQueues(Kernel& kernel) {
    while (static_cast<int>(queues_.size()) < kernel.queues()) {
      ASYRA_ASSIGN_OR_RETURN(
          std::unique_ptr<Stream> queue,
          device_->CreateStream(fmt::format("queue {}", queues_.size() + 1),
                                StreamUse::kCollectives, &failure_));
      queues_.push_back(std::move(queue));
    }
    std::vector<Stream*> queues;
    for (auto& queue : queues_) queues.push_back(queue.get());
    kernel.UseQueues(queues);
    return absl::OkStatus();
  }

  absl::Status Wait(Stream& stream) {
    ASYRA_RETURN_IF_ERROR(stream.Synchronize(
        [this](double waited_s) { return world_.Check(waited_s); }));
    return failure_.status();
  }

  // Returns the largest value of all ranks.
  absl::StatusOr<double> Largest(double value) {
    std::string mine(sizeof(value), '\0');
    std::memcpy(mine.data(), &value, sizeof(value));
    ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> all, world_.Exchange(mine));
    for (const std::string& one : all) {
      double other = 0;
      std::memcpy(&other, one.data(), sizeof(other));
      value = std::max(value, other);
    }
    return value;
  }

  // Runs the work of `enqueue` after a barrier of all devices and once all
  // hosts have enqueued it. If a host was later than its device's barrier, all
  // ranks repeat it.
  absl::Status WhenMet(const std::function<void()>& enqueue) {
    if (meet_ == nullptr) ASYRA_RETURN_IF_ERROR(PrepareMeeting());
    double late_us = 1;
    for (int i = 0; i < kAttempts && late_us > 0; ++i) {
      ASYRA_RETURN_IF_ERROR(world_.Exchange("").status());
      auto from = Clock::now();
      comm_->Record(*meet_begin_);
      meet_->Replay();
      comm_->Record(*met_);
      enqueue();
      std::chrono::duration<double, std::micro> host = Clock::now() - from;
      ASYRA_RETURN_IF_ERROR(Wait(*comm_));
      ASYRA_RETURN_IF_ERROR(Wait(*compute_));
      // The device began the barriers after `from`.
      double meeting_us = met_->UsSince(*meet_begin_);
      ASYRA_ASSIGN_OR_RETURN(late_us, Largest(host.count() - meeting_us));
    }
    return absl::OkStatus();
  }

  // Returns the time of all that is recorded, on the slowest rank.
  absl::StatusOr<double> CollectiveUs(Recording& collective) {
    ASYRA_RETURN_IF_ERROR(WhenMet([&] {
      comm_->Record(*begin_);
      collective.Replay();
      comm_->Record(*end_);
    }));
    return Largest(end_->UsSince(*begin_));
  }

  // Returns the time of all that is recorded, on this rank.
  absl::StatusOr<double> ComputeUs(Recording& compute) {
    ASYRA_RETURN_IF_ERROR(WhenMet([&] {
      compute_->Wait(*met_);
      compute_->Record(*compute_begin_);
      compute.Replay();
      compute_->Record(*compute_end_);
    }));
    return compute_end_->UsSince(*compute_begin_);
  }

  // Times one kernel in a row of them. All ranks run the same number of rows.
  absl::StatusOr<Timing> TimeRows(
      Prepared& prepared, Stream& stream, int samples,
      absl::StatusOr<double> (Timer::*us_of)(Recording&)) {
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Recording> row,
                           prepared.Record(1, *device_, stream));
    ASYRA_RETURN_IF_ERROR((this->*us_of)(*row).status());  // warms up
    ASYRA_ASSIGN_OR_RETURN(double one_us, (this->*us_of)(*row));
    int count = LaunchesFor(kRowUs, one_us, kMostInRow);
    ASYRA_ASSIGN_OR_RETURN(row, prepared.Record(count, *device_, stream));
    ASYRA_RETURN_IF_ERROR((this->*us_of)(*row).status());
    std::vector<double> times;
    for (int i = 0; i < samples; ++i) {
      ASYRA_ASSIGN_OR_RETURN(double us, (this->*us_of)(*row));
      times.push_back(us / count);
    }
    return TimingOf(std::move(times));
  }

  // Times one replay in a row of them: events of a recording that queues wait
  // for are recorded once in it.
  absl::StatusOr<Timing> TimeReplays(Recording& once, int samples) {
    auto row_us = [&](int count) -> absl::StatusOr<double> {
      ASYRA_RETURN_IF_ERROR(WhenMet([&] {
        comm_->Record(*begin_);
        for (int i = 0; i < count; ++i) once.Replay();
        comm_->Record(*end_);
      }));
      return Largest(end_->UsSince(*begin_));
    };
    ASYRA_RETURN_IF_ERROR(row_us(1).status());  // warms up
    ASYRA_ASSIGN_OR_RETURN(double one_us, row_us(1));
    int count = LaunchesFor(kRowUs, one_us, kMostInRow);
    ASYRA_RETURN_IF_ERROR(row_us(count).status());
    std::vector<double> times;
    for (int i = 0; i < samples; ++i) {
      ASYRA_ASSIGN_OR_RETURN(double us, row_us(count));
      times.push_back(us / count);
    }
    return TimingOf(std::move(times));
  }

  // The collectives begin with the computations, and end before them.
  absl::Status Beside(Recording& computing, Recording& moving) {
    return WhenMet([&] {
      compute_->Wait(*met_);
      compute_->Record(*compute_begin_);
      computing.Replay();
      compute_->Record(*compute_end_);
      comm_->Record(*begin_);
      moving.Replay();
      comm_->Record(*end_);
    });
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Communicator> connected_;
  Communicator& world_;
  Failure failure_;
  int num_prepared_ = 0;
  Prepared barrier_;
  std::unique_ptr<Event> meet_begin_, met_;  // around the barriers
  std::unique_ptr<Event> begin_, end_, compute_begin_, compute_end_;
  std::unique_ptr<Stream> compute_, comm_;
  std::vector<std::unique_ptr<Stream>> queues_;  // of overlaps
  std::unique_ptr<Recording> meet_;              // of the barriers
};

}  // namespace

absl::Status RunRankTimers(
    Platform& platform, int64_t ranks, double timeout_s,
    const std::function<absl::Status(RankTimer&)>& body) {
  ASYRA_RETURN_IF_ERROR(platform.CheckRanks(ranks));
  return RunLocalRanks(
      ranks, {.timeout_s = timeout_s},
      [&](Communicator& control) -> absl::Status {
        ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                               platform.MakeDevice(control.rank(), ranks));
        ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> connected,
                               platform.Connect(control, *device));
        Timer timer(control, std::move(device), std::move(connected));
        ASYRA_RETURN_IF_ERROR(timer.Prepare());
        return body(timer);
      });
}

}  // namespace asyra
