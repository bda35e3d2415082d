// The catalogue of passes; one record each, in pipeline order.
#pragma once

#include <string_view>

#include "absl/types/span.h"
#include "passes/pass.h"

namespace asyra {

absl::Span<const PassRecord> AllPasses();
const PassRecord* FindPass(std::string_view name);

}  // namespace asyra
