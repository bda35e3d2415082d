// The values that a training step computes again, for people and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "nlohmann/json_fwd.hpp"
#include "passes/search/recompute_search.h"

namespace asyra {

// A line of the training step; empty for one chunk.
std::string LossChunksText(int64_t chunks);

// A line of the training step; empty for none.
std::string RecomputeText(const std::optional<RecomputeReport>& report);

// {values, count, kept: {..}, again: {..}, hidden}; null for none.
nlohmann::json RecomputeJson(const std::optional<RecomputeReport>& report);

}  // namespace asyra
