// What a scheduled program computes when its streams really run beside each
// other. The interpreter runs ops in text order and sees no missing order.
#pragma once

#include <string>
#include <vector>

#include "fmt/format.h"
#include "ir/printer.h"
#include "tests/schedules/delayed_cpu.h"

namespace asyra {

// Empty where two steps on cpu ranks whose kernels are late at random, their
// memory debugged, give equal values, those of `want` (a sum of -0 from every
// device may be 0); else what differs.
inline std::string DifferenceOnStreams(const Program& program,
                                       const std::vector<Tensor>& inputs,
                                       const std::vector<Tensor>& want,
                                       uint64_t seed) {
  DelayedPlatform platform(seed);
  absl::StatusOr<RunResult> got =
      RunOnThreads(program, inputs, platform,
                   {.executor = {.debug_memory = true},
                    .repeat = 2,
                    .check_deterministic = true});
  if (!got.ok()) {
    return fmt::format("{}\n{}", got.status().ToString(), ToString(program));
  }
  for (size_t i = 0; i < want.size(); ++i) {
    if (got->outputs[i].ToDoubles() == want[i].ToDoubles()) continue;
    return fmt::format("output {} differs\n{}", i, ToString(program));
  }
  return "";
}

}  // namespace asyra
