// Chooses a schedule: drafts what the passes can make of a local program,
// judges each on the simulator, and returns the best within the memory budget.
// The program as it stands is among them, so the result is never worse than it
// (the gate of DESIGN 4).
//
// What costs much is done on a program of few layers (shorten.h): tiles are
// merged there, orders searched, and collectives joined in the best of them.
// The plans that come out are followed on the whole program, and what that
// simulates to decides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/pass_manager.h"
#include "simulator/simulate.h"

namespace asyra {

inline constexpr int kMostTiles = 4;  // that are tried unasked

struct ScheduleOptions {
  // 0: the best of 1 to kMostTiles; otherwise exactly that many, better or
  // not.
  int tiles = 0;
  // "batch", "sequence", or "auto": the batch, or where it does not cut into
  // tiles the sequence.
  std::string tile_dim = "auto";
  // One of Schedulers() (reorder.h), and then nothing is searched, or "auto":
  // the best that is found.
  std::string scheduler = "auto";
  bool bucket = true;
  bool join = true;    // small collectives, where tiles may be merged
  bool copies = true;  // carry collectives where copy engines can
  bool spare = true;   // processors, by products beside collectives
  // Orders that are simulated on the whole, about. The result depends on it,
  // not on the machine that searches.
  int search_steps = 5000;
  // Of the peak on a device. 0: what the device has, if the program as it
  // stands fits in it.
  int64_t memory_bytes = 0;
  PassManagerOptions manager;  // for the passes of the drafts
};

// What `tile_dim` stands for, in this order.
std::vector<std::string> TileDimsToTry(const ScheduleOptions& options);

struct ScheduleChoice {
  std::string name;  // "2 tiles along the batch, bucketed, search"
  double makespan_us = 0;
  int64_t peak_bytes = 0;
  std::string rejected;  // why, empty for the one chosen
};

struct ScheduleResult {
  Program program;     // stage scheduled
  SimResult baseline;  // of the local program: collectives block
  SimResult optimized;
  int tiles = 1;
  std::string scheduler;  // that ordered it: "search", "segrr", "serial"
  int steps = 0;          // orders simulated
  std::vector<ScheduleChoice> candidates;
};

// Of a local program; context.costs must be there. A draft replaces the
// program as it stands only if it is still faster when prices are off by a
// tenth (perturbation.h), unless the options ask for it.
// Errors: ResourceExhausted where no draft fits the budget, with the least
// memory that one takes; InvalidArgument where the program does not cut into
// the tiles asked for.
absl::StatusOr<ScheduleResult> Schedule(const Program& program,
                                        const ScheduleOptions& options,
                                        PassContext& context);

// Whether an error of Schedule is one of these two.
bool IsRefusal(const absl::Status& status);

}  // namespace asyra
