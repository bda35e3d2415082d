#include "passes/search/schedule_options.h"

#include "simulator/replay/library_memory.h"

namespace asyra {
namespace {

// All rounds up to one have so many times the steps of those before it.
constexpr int kRoundGrowth = 5;

}  // namespace

int64_t CapacityOf(const ScheduleOptions& options, const Machine& machine) {
  return options.capacity_bytes.value_or(CapacityBytes(/*gib=*/-1, machine));
}

std::vector<int> SearchRounds(int steps) {
  std::vector<int> rounds = {kFirstRound};
  int64_t sum = kFirstRound;
  for (; sum * kRoundGrowth <= steps; sum *= kRoundGrowth) {
    rounds.push_back(static_cast<int>(sum * (kRoundGrowth - 1)));
  }
  return rounds;
}

std::vector<std::string> TileDimsToTry(const ScheduleOptions& options) {
  if (options.tile_dim == "auto") return {"batch", "sequence"};
  return {options.tile_dim};
}

}  // namespace asyra
