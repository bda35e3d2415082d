// The options of a search for a schedule (schedule.h): what it tries, and how
// long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "simulator/machine/machine.h"

namespace asyra {

inline constexpr int kMostTiles = 4;  // that are tried by default
inline constexpr int kSearchSteps = 5000;
inline constexpr int kFirstRound = 200;  // steps of the first SearchRounds

struct ScheduleOptions {
  // 0: the best of 1 to kMostTiles; otherwise exactly that many, better or
  // not.
  int tiles = 0;
  // "batch", "sequence" (dim_labels.h), or "auto": the batch, or the sequence
  // if the batch cannot be tiled.
  std::string tile_dim = "auto";
  // One of Schedulers() (reorder.h), and then nothing is searched, or "auto":
  // the best that is found.
  std::string scheduler = "auto";
  bool bucket = true;
  bool join = true;  // small collectives, where tiles may be merged
  // Decisions that are made: what every candidate begins with, once it is tiled
  // and its collectives have starts.
  Pipeline taken;
  // Passes of Decisions() (decisions.h) that the search does not try.
  std::vector<std::string> closed;
  // Passes of Decisions() that the search tries on request alone.
  std::vector<std::string> opened;
  // About how many orders are simulated: as many SearchRounds as fit, at least
  // the first. The result depends on it, not on the machine that searches.
  int search_steps = kSearchSteps;
  // Makespans of another program that does the same, the best after each round:
  // this search ends after a round in which it is far behind.
  std::vector<double> rival_us;
  // Called with the makespan that the first round has found; returns whether
  // other rounds follow. Empty: they do.
  std::function<bool(double us)> goes_on;
  // Memory of a device that the step may use in all (CapacityBytes); 0: no
  // limit. None: the machine's memory, but schedules that do not fit are
  // allowed.
  std::optional<int64_t> capacity_bytes;
  // True if the schedule is wanted that takes least memory of a device, of
  // those that a round finds, not the fastest. The capacity does not matter.
  bool smallest = false;
  // Bytes of a device, with `smallest`: other programs are not tried after one
  // that takes no more.
  int64_t enough_bytes = 0;
  // True if schedules are made without a limit when none fits.
  bool allow_misfit = false;
  // Passes run on the best schedules before they are compared; may be empty.
  Pipeline streams = StreamPasses();
  PassManagerOptions manager;  // for the passes of the candidates
  size_t runners_up = 0;       // how many of the others are kept
};

// Returns the bytes of a device that a program may use in all: those that the
// options have, else the machine's memory. 0: no limit.
int64_t CapacityOf(const ScheduleOptions& options, const Machine& machine);

// Returns the rounds of a search of so many steps, and the steps of each: 200,
// 800, 4000, 20000, ..., each with those before it five times what these have:
// 5000 steps have three rounds, 1000 have two.
std::vector<int> SearchRounds(int steps);

// Returns the dimensions that `tile_dim` means, in this order.
std::vector<std::string> TileDimsToTry(const ScheduleOptions& options);

}  // namespace asyra
