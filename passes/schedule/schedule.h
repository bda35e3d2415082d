// Chooses a schedule: builds candidates of a local program with the passes,
// simulates each, and returns the fastest within the memory of a device. The
// baseline is one of them, so the result is never worse than it.
//
// Expensive steps run on a program of few layers (shorten.h): merging tiles,
// searching orders, and joining collectives in the best of them. The resulting
// plans are repeated on the whole program, and its simulated step, once streams
// are assigned, decides.
//
// The search goes in rounds of a fixed size (SearchRounds). A larger budget has
// the rounds of a smaller one and more, and all their candidates: its result is
// never slower.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "passes/schedule/order_search.h"
#include "passes/schedule/runners_up.h"
#include "simulator/simulate.h"

namespace asyra {

inline constexpr int kMostTiles = 4;  // that are tried by default
inline constexpr int kSearchSteps = 5000;

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
  // Of a training step: nothing of backward begins before forward has ended
  // (separate_phases.h), not even that of another tile.
  bool phases_apart = false;
  // Passes of Decisions() (decisions.h) that the search does not try.
  std::vector<std::string> closed;
  // Those of them that it tries on request alone.
  std::vector<std::string> opened;
  // About how many orders are simulated: as many SearchRounds as fit, at least
  // the first. The result depends on it, not on the machine that searches.
  int search_steps = kSearchSteps;
  // Of another program that does the same, the best after each round: this
  // search ends after a round where it is far behind it.
  std::vector<double> rival_us;
  // Called with what the first round has found: whether others follow. Where
  // they do, the first merges no tiles and joins no collectives: it is to rank
  // programs. Empty: they do, and all rounds are alike.
  std::function<bool(double us)> goes_on;
  // Memory of a device that the step may use in all (CapacityBytes); 0: no
  // limit. None: the machine's memory, but schedules that do not fit are
  // allowed.
  std::optional<int64_t> capacity_bytes;
  // If no schedule fits, schedules without a limit.
  bool allow_misfit = false;
  // Passes run on the best schedules before they are compared; may be empty.
  Pipeline streams = StreamPasses();
  PassManagerOptions manager;  // for the passes of the candidates
  size_t runners_up = 0;       // how many of the others are kept
};

// The rounds of a search of so many steps, and the steps of each: 200, 800,
// 4000, 20000, ..., each with those before it five times what these have: 5000
// steps have three rounds, 1000 have two.
std::vector<int> SearchRounds(int steps);

// The dimensions that `tile_dim` means, in this order.
std::vector<std::string> TileDimsToTry(const ScheduleOptions& options);

struct ScheduleChoice {
  std::string name;  // "2 tiles along the batch, bucketed, search"
  double makespan_us = 0;
  int64_t device_bytes = 0;  // gaps between values not counted
  std::string rejected;      // why, empty for the one chosen
};

// Lower bound: a search cannot distinguish makespans that differ by a smaller
// share.
inline constexpr double kLeastNoise = 0.001;
// For a search of one round, which has no earlier round to compare with.
inline constexpr double kNoiseOfOneRound = 0.01;

struct ScheduleResult {
  Program program;     // stage scheduled
  SimResult baseline;  // of the local program: collectives block
  SimResult optimized;
  int tiles = 1;
  std::string scheduler;  // that ordered it: "search", "segrr", "serial"
  int steps = 0;          // orders simulated
  bool fits = true;       // in the capacity
  // Of the best that fits after each round of the search; empty without a
  // search.
  std::vector<double> round_us;
  std::vector<ScheduleChoice> candidates;
  // Fastest first, each another program; fewer than asked for where fewer fit.
  std::vector<RunnerUp> runners_up;
};

// Of a local program; context.costs must be there. A candidate replaces the
// baseline only if it is still faster when costs carry 10 % noise
// (cost_noise.h), unless the options ask for it.
// Errors: ResourceExhausted where no candidate fits the capacity given, with
// the least memory of a device that one takes; InvalidArgument where the
// program does not cut into the tiles asked for.
absl::StatusOr<ScheduleResult> Schedule(const Program& program,
                                        const ScheduleOptions& options,
                                        PassContext& context);

// The best that a first look finds: a few orders of the program of few layers
// for each decision, and the computation of the layers left out, alone. Programs
// that do the same compare by it, before one of them is searched. `steps`,
// unless null, counts the orders.
// Errors: InvalidArgument where the program does not cut into the tiles asked
// for.
absl::StatusOr<Merit> FirstLook(const Program& program,
                                const ScheduleOptions& options,
                                PassContext& context, int* steps = nullptr);

// The noise of a search, as a share of the makespan: the gain of its last
// round, within the bounds given above. Two results that differ by less are a
// tie.
double SearchNoise(const std::vector<double>& round_us);

// Of two searches of one program after each round; one that has fewer has its
// last result from then on.
std::vector<double> BestOfRounds(std::vector<double> a, std::vector<double> b);

// Whether an error of Schedule is one of these two.
bool IsRefusal(const absl::Status& status);

}  // namespace asyra
