// JSON objects in which a name stands once.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace asyra {

// The object that a text is. Errors: `it is no JSON object`; `"w" / "dtype" is
// named twice`, of which readers of JSON would take either one.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text);

}  // namespace asyra
