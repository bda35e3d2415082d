// A Chrome trace as a profile; see ReadProfile.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "absl/status/statusor.h"
#include "simulator/report/profile.h"

namespace asyra {

// `trace` is an object with "traceEvents".
absl::StatusOr<Profile> ReadTrace(const nlohmann::ordered_json& trace,
                                  std::string_view origin);

}  // namespace asyra
