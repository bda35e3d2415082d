// The result of a search for a schedule (schedule.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"
#include "passes/search/decisions.h"
#include "passes/search/runners_up.h"
#include "simulator/replay/simulate.h"

namespace asyra {

struct ScheduleChoice {
  std::string name;  // "2 tiles along the batch, bucketed, search"
  double makespan_us = 0;
  int64_t device_bytes = 0;  // gaps between values not counted
  std::string rejected;      // why, empty for the one chosen
};

// Lower bound: a search cannot distinguish makespans that differ by a smaller
// share.
inline constexpr double kLeastNoise = 0.001;
// The noise of a search of one round, which has no earlier round to compare
// with.
inline constexpr double kNoiseOfOneRound = 0.01;

struct ScheduleResult {
  Program program;     // stage scheduled
  SimResult baseline;  // of the local program: collectives block
  SimResult optimized;
  double least_gain = 0;  // of the plan (CandidatePlan)
  double ComparedUs() const {
    return asyra::ComparedUs(optimized.makespan_us, least_gain);
  }
  int tiles = 1;
  std::string scheduler;     // that ordered it: "search", "segrr", "serial"
  int steps = 0;             // orders simulated
  bool fits = true;          // in the capacity
  int64_t device_bytes = 0;  // of ScheduleOptions::smallest
  // Makespans of the best that fits after each round of the search; empty
  // without a search.
  std::vector<double> round_us;
  std::vector<ScheduleChoice> candidates;
  // Fastest first, each another program; fewer than asked for where fewer fit.
  std::vector<RunnerUp> runners_up;
};

// Returns why a schedule that is estimated to be faster than another one was
// not taken: "gains 3.1 % over 2 tiles, and estimates of it are up to 8 % too
// good".
std::string GainsTooLittle(double us, double least_gain, double other_us,
                           std::string_view other);

// Returns the noise of a search, as a share of the makespan: the gain of its
// last round, within the bounds given above. Two results that differ by less
// are a tie.
double SearchNoise(const std::vector<double>& round_us);

// Returns the better of two searches of one program after each round; one that
// has fewer rounds has its last result from then on.
std::vector<double> BestOfRounds(std::vector<double> a, std::vector<double> b);

}  // namespace asyra
