// Estimates of chunk plans by what a run of asyra-bench has measured of their
// parts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "simulator/machine/machine.h"
#include "tools/bench/bench_report.h"

namespace asyra {

// A call however it is spaced.
std::pair<std::string, int> CallKey(std::string text, int ranks);

// Sets OverlapForm::of_parts_us of the plans of `overlaps`: by the table that
// the machine `base` names, in which `calls` of matmuls and collectives replace
// older points.
absl::Status EstimateFromParts(const std::string& base, Machine machine,
                               absl::Span<const MeasuredCall> calls,
                               DType dtype, int ranks,
                               std::vector<MeasuredOverlap>* overlaps);

}  // namespace asyra
