#include "tools/bench/bench_estimates.h"

#include <algorithm>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "ir/support/status.h"
#include "simulator/cost/cost_table.h"
#include "simulator/cost/load_machine.h"
#include "tools/bench/bench_files.h"

namespace asyra {
namespace {

// Returns the table `before` with the points of `calls` in place of older ones.
// Overlaps are left out: their times are to follow from their parts.
Measurements PartsOf(Measurements before,
                     absl::Span<const MeasuredCall> calls) {
  std::set<std::pair<std::string, int>> measured;
  for (const MeasuredCall& call : calls) {
    measured.insert(CallKey(call.text, call.ranks));
  }
  std::erase_if(before.points, [&](const Measurement& point) {
    return measured.contains(CallKey(point.call, point.ranks));
  });
  for (const MeasuredCall& call : calls) {
    before.points.push_back({call.text, call.ranks, call.timing.us});
  }
  std::erase_if(before.points, [](const Measurement& point) {
    return absl::StartsWith(point.call, "overlap(");
  });
  return before;
}

}  // namespace

std::pair<std::string, int> CallKey(std::string text, int ranks) {
  std::erase(text, ' ');
  return {std::move(text), ranks};
}

absl::Status EstimateFromParts(const std::string& base, Machine machine,
                               absl::Span<const MeasuredCall> calls,
                               DType dtype, int ranks,
                               std::vector<MeasuredOverlap>* overlaps) {
  absl::StatusOr<Measurements> table = LoadMeasurements(base);
  Measurements parts =
      PartsOf(table.ok() ? *std::move(table) : Measurements(), calls);
  ASYRA_ASSIGN_OR_RETURN(machine.table, CostTable::Calibrate(parts, machine));
  for (MeasuredOverlap& overlap : *overlaps) {
    ASYRA_ASSIGN_OR_RETURN(std::vector<OverlapForm> again,
                           OverlapForms(overlap.shape, dtype, ranks, machine));
    for (OverlapForm& form : overlap.forms) {
      auto same = absl::c_find_if(again, [&](const OverlapForm& other) {
        return other.kind == form.kind && other.name == form.name;
      });
      // A form that only the machine's table makes the best has no estimate
      // here.
      if (form.kind == OverlapForm::kPlan && same != again.end()) {
        form.of_parts_us = same->predicted_us;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace asyra
