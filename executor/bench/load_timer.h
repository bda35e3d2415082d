// The clock and the power of devices while each runs one kernel again and
// again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "executor/device.h"

namespace asyra {

// A kernel that runs on random data, or none.
struct Load {
  // A local call or a collective of all ranks; empty: none.
  std::string text;
  double busy = 1;  // the share of the time in which it runs
  double settle_s = 1.5, measure_s = 1;
};

// The slowest device, the lowest clock and the most power of all of them.
struct LoadPower {
  double us = 0;                 // of one call
  double busy = 0;               // the share of the time in which calls ran
  double mhz = 0, most_mhz = 0;  // the clock of SMs, and the highest
  double watts = 0, limit_w = 0;
};

// One rank's end: all ranks run the same loads in the same order.
class LoadTimer {
 public:
  using Largest = std::function<absl::StatusOr<double>(double mine)>;
  // A row of so many launches, recorded on the stream.
  using Record =
      std::function<absl::StatusOr<std::unique_ptr<Recording>>(int launches)>;

  // `wait`: until the stream is done; `largest`: the value of the rank where it
  // is largest. Device and stream outlive this.
  LoadTimer(Device& device, Stream& stream, std::function<absl::Status()> wait,
            Largest largest);

  // `record`: empty: nothing runs. Errors: Unimplemented where a device does
  // not tell its clock and power; those of the arguments.
  absl::StatusOr<LoadPower> Run(const Load& load, const Record& record);

 private:
  struct Sums {
    double rows = 0, row_us = 0, all_us = 0, mhz = 0, watts = 0;
  };
  absl::Status OneRow(Recording* row, double pause_us, Sums* sums);
  absl::StatusOr<double> OneUs(Recording& one);
  absl::StatusOr<LoadPower> OfAllRanks(const Sums& sums, int launches);

  Device& device_;
  Stream& stream_;
  std::function<absl::Status()> wait_;
  Largest largest_;
  std::unique_ptr<Event> begin_, end_;
};

}  // namespace asyra
