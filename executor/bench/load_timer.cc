#include "executor/bench/load_timer.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "executor/bench/timing.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

// Launches between two looks at the clock.
constexpr double kRowUs = 20000;
constexpr int kMostInRow = 2000;

}  // namespace

LoadTimer::LoadTimer(Device& device, Stream& stream,
                     std::function<absl::Status()> wait, Largest largest)
    : device_(device),
      stream_(stream),
      wait_(std::move(wait)),
      largest_(std::move(largest)),
      begin_(device.CreateEvent(/*timed=*/true)),
      end_(device.CreateEvent(/*timed=*/true)) {}

absl::StatusOr<LoadPower> LoadTimer::Run(const Load& load,
                                         const Record& record) {
  std::unique_ptr<Recording> row;
  int launches = 1;
  double work_us = 0, pause_us = kRowUs;
  if (record) {
    ASYRA_ASSIGN_OR_RETURN(row, record(1));
    ASYRA_ASSIGN_OR_RETURN(double one_us, OneUs(*row));
    launches = LaunchesFor(kRowUs, one_us, kMostInRow);
    ASYRA_ASSIGN_OR_RETURN(row, record(launches));
    work_us = launches * one_us;
    pause_us = work_us * (1 / load.busy - 1);
  }
  double period_us = work_us + pause_us;
  auto settling = static_cast<int>(load.settle_s * 1e6 / period_us);
  auto measured =
      std::max(1, static_cast<int>(load.measure_s * 1e6 / period_us));
  Sums settled, sums;
  for (int i = 0; i < settling + measured; ++i) {
    ASYRA_RETURN_IF_ERROR(
        OneRow(row.get(), pause_us, i < settling ? &settled : &sums));
  }
  return OfAllRanks(sums, launches);
}

// Runs a row, if there is one, and then pauses.
absl::Status LoadTimer::OneRow(Recording* row, double pause_us, Sums* sums) {
  auto from = Clock::now();
  if (row != nullptr) {
    stream_.Record(*begin_);
    row->Replay();
    stream_.Record(*end_);
  }
  PowerState state = device_.Power();
  ASYRA_RETURN_IF_ERROR(wait_());
  std::this_thread::sleep_for(Microseconds(pause_us));
  Microseconds all = Clock::now() - from;
  ++sums->rows;
  sums->mhz += state.mhz;
  sums->watts += state.watts;
  sums->all_us += all.count();
  if (row != nullptr) sums->row_us += end_->UsSince(*begin_);
  return absl::OkStatus();
}

// Returns the time of one launch, on the slowest rank.
absl::StatusOr<double> LoadTimer::OneUs(Recording& one) {
  Sums warm_up, sums;
  ASYRA_RETURN_IF_ERROR(OneRow(&one, 0, &warm_up));
  ASYRA_RETURN_IF_ERROR(OneRow(&one, 0, &sums));
  return largest_(sums.row_us);
}

absl::StatusOr<LoadPower> LoadTimer::OfAllRanks(const Sums& sums,
                                                int launches) {
  PowerState state = device_.Power();
  LoadPower all{.most_mhz = state.most_mhz, .limit_w = state.limit_w};
  ASYRA_ASSIGN_OR_RETURN(all.us, largest_(sums.row_us / sums.rows / launches));
  ASYRA_ASSIGN_OR_RETURN(all.watts, largest_(sums.watts / sums.rows));
  ASYRA_ASSIGN_OR_RETURN(all.busy, largest_(sums.row_us / sums.all_us));
  ASYRA_ASSIGN_OR_RETURN(double lowest, largest_(-sums.mhz / sums.rows));
  all.mhz = -lowest;
  if (all.mhz <= 0 || all.watts <= 0) {
    return Unimplemented("a device does not tell its clock and power");
  }
  return all;
}

}  // namespace asyra
