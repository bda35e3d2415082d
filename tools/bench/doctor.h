// asyra-bench --doctor: what this machine has for communication behind
// computation, what it lacks, and how to get that. Fit for a bug report.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/cuda/device/gpu_system.h"
#include "tools/bench/host_facts.h"

namespace asyra {

struct Finding {
  enum class State : uint8_t {
    kFact,     // it is so
    kGood,     // it is available
    kMissing,  // it is not, and `advice` says how to get it
  };
  std::string topic;  // "host", "processes", "GPUs", "environment"
  std::string name;
  State state = State::kFact;
  std::string value;
  std::string advice;
};

// `gpus` may be an error, which is told.
std::vector<Finding> Diagnose(const HostFacts& host,
                              const absl::StatusOr<GpuSystem>& gpus);

// By topic, a line each, what is missing again at the end.
std::string DoctorText(const std::vector<Finding>& findings);
// {"findings": [{topic, name, state: "fact"|"good"|"missing", value, advice}],
// "missing": N}.
std::string DoctorJson(const std::vector<Finding>& findings);

}  // namespace asyra
