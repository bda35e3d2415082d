#include "passes/search/whole_candidates.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/algorithm/container.h"
#include "fmt/format.h"
#include "ir/support/units.h"
#include "passes/schedule/order/cost_noise.h"
#include "passes/search/capacity_error.h"
#include "simulator/replay/library_memory.h"

namespace asyra {
namespace {

// The excess over the memory, as a factor, that other orders of a program
// rarely save.
constexpr double kHopeless = 1.25;

}  // namespace

WholeCandidate* WholeCandidates::Best(bool joined) {
  WholeCandidate* best = nullptr;
  for (WholeCandidate& whole : all_) {
    const Candidate& candidate = whole.candidate;
    if (!candidate.plan.early || !Asked(candidate)) continue;
    if (!joined && !candidate.plan.displaces()) continue;
    if (best == nullptr || candidate.BetterThan(best->candidate)) {
      best = &whole;
    }
  }
  return best;
}

// Returns whether its gain is robust to cost noise. The baseline and requested
// schedules always pass, and all if the baseline does not fit.
bool WholeCandidates::IsRobust(WholeCandidate* whole) {
  const Candidate& candidate = whole->candidate;
  if (!candidate.plan.early || options_.tiles != 0) return true;
  if (!all_[0].fits()) return true;
  if (!whole->robust.has_value()) {
    if (!costed_.has_value()) costed_.emplace(program_, costs_);
    whole->robust =
        IsRobustToNoise(*costed_, CostedProgram(candidate.program, costs_),
                        candidate.found.best.order);
  }
  return *whole->robust;
}

void WholeCandidates::SortBest(std::vector<int>* ranked) const {
  absl::c_stable_sort(*ranked, [&](int a, int b) {
    return all_[a].candidate.BetterThan(all_[b].candidate);
  });
}

int WholeCandidates::Fastest(bool joined) {
  std::vector<int> ranked;
  for (int i = 0; i < static_cast<int>(all_.size()); ++i) {
    const Candidate& candidate = all_[i].candidate;
    if (Asked(candidate) && all_[i].fits() &&
        (joined || !candidate.plan.joined)) {
      ranked.push_back(i);
    }
  }
  SortBest(&ranked);
  auto robust =
      absl::c_find_if(ranked, [&](int i) { return IsRobust(&all_[i]); });
  return robust == ranked.end() ? -1 : *robust;
}

std::vector<int> WholeCandidates::Others(int chosen) const {
  std::vector<int> ranked;
  for (int i = 1; i < static_cast<int>(all_.size()); ++i) {
    if (i != chosen && all_[i].fits() && Asked(all_[i].candidate)) {
      ranked.push_back(i);
    }
  }
  SortBest(&ranked);
  return ranked;
}

std::vector<int> WholeCandidates::Smallest(size_t most) const {
  std::vector<int> ranked;
  for (int i = 0; i < static_cast<int>(all_.size()); ++i) {
    if (Asked(all_[i].candidate)) ranked.push_back(i);
  }
  absl::c_stable_sort(ranked, [&](int a, int b) {
    return LiveBytes(all_[a]) < LiveBytes(all_[b]);
  });
  ranked.resize(std::min(ranked.size(), most));
  return ranked;
}

// Returns the bytes of libraries and kernels.
int64_t WholeCandidates::OtherBytes(const WholeCandidate& whole) const {
  const Program& program = whole.candidate.program;
  return LibraryBytes(program, costs_.machine()) +
         WorkspaceBytes(program, costs_.machine());
}

int64_t WholeCandidates::LiveBytes(const WholeCandidate& whole) const {
  return whole.candidate.found.peak_bytes + OtherBytes(whole);
}

// Bytes of the device, given the peak of the values.
int64_t WholeCandidates::DeviceBytes(const WholeCandidate& whole,
                                     int64_t live_bytes) const {
  return std::max(whole.device_bytes, live_bytes + OtherBytes(whole));
}

void WholeCandidates::SetTooLarge(WholeCandidate* whole, int64_t device_bytes) {
  whole->device_bytes = device_bytes;
  least_over_ =
      least_over_ == 0 ? device_bytes : std::min(least_over_, device_bytes);
}

bool WholeCandidates::IsFarOver(int64_t bytes) const {
  bool may_misfit =
      !options_.capacity_bytes.has_value() || options_.allow_misfit;
  return may_misfit && capacity_bytes_ > 0 &&
         static_cast<double>(bytes) >
             kHopeless * static_cast<double>(capacity_bytes_);
}

bool WholeCandidates::IsHopeless() const {
  return absl::c_all_of(all_, [this](const WholeCandidate& whole) {
    return !Asked(whole.candidate) ||
           IsFarOver(whole.candidate.found.least_peak_bytes);
  });
}

bool WholeCandidates::IsHopeless(const std::vector<Candidate>& shorter) const {
  return absl::c_all_of(shorter, [this](const Candidate& candidate) {
    return IsFarOver(candidate.found.least_peak_bytes + candidate.cut_bytes);
  });
}

absl::Status WholeCandidates::NothingFits() const {
  int64_t least = 0;
  for (const WholeCandidate& whole : all_) {
    const Candidate& candidate = whole.candidate;
    if (!Asked(candidate)) continue;
    int64_t bytes = DeviceBytes(whole, candidate.found.least_peak_bytes);
    // Gaps between values are then what is too much.
    if (bytes <= capacity_bytes_ && least_over_ > 0) bytes = least_over_;
    least = least == 0 ? bytes : std::min(least, bytes);
  }
  return asyra::NothingFits(capacity_bytes_, least);
}

std::string WholeCandidates::WhyNot(const WholeCandidate& whole,
                                    const Candidate& best) const {
  const Candidate& candidate = whole.candidate;
  if (!Asked(candidate)) {
    return fmt::format("{} tiles were asked for", options_.tiles);
  }
  if (!whole.fits()) {
    return fmt::format(
        "takes {} of a device of {}",
        BytesText(DeviceBytes(whole, candidate.found.peak_bytes)),
        BytesText(capacity_bytes_));
  }
  if (!whole.robust.value_or(true)) {
    return "its gain is not robust to 10 % cost noise";
  }
  // Times that are printed the same are not called slower.
  constexpr double kPrintedSame = 0.0005;
  double more = candidate.found.makespan_us / best.found.makespan_us - 1;
  if (more < 0 && candidate.plan.least_gain > 0) {
    return GainsTooLittle(candidate.found.makespan_us,
                          candidate.plan.least_gain, best.found.makespan_us,
                          best.plan.name);
  }
  if (more >= kPrintedSame) return "slower than " + best.plan.name;
  return fmt::format("no faster than {}{}", best.plan.name,
                     more < 0 ? " once streams are assigned" : "");
}

std::vector<ScheduleChoice> WholeCandidates::Choices(int chosen) const {
  std::map<std::string, int> told;
  for (int i = 0; i < static_cast<int>(all_.size()); ++i) {
    const Candidate& candidate = all_[i].candidate;
    auto [at, is_new] = told.emplace(candidate.plan.name, i);
    if (is_new || at->second == chosen) continue;
    bool better = candidate.BetterThan(all_[at->second].candidate);
    if (better || i == chosen) at->second = i;
  }
  std::vector<ScheduleChoice> choices;
  for (int i = 0; i < static_cast<int>(all_.size()); ++i) {
    const Candidate& candidate = all_[i].candidate;
    if (told[candidate.plan.name] != i) continue;
    choices.push_back(
        {candidate.plan.name, candidate.found.makespan_us,
         DeviceBytes(all_[i], candidate.found.peak_bytes),
         i == chosen ? "" : WhyNot(all_[i], all_[chosen].candidate)});
  }
  return choices;
}

}  // namespace asyra
