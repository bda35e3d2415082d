// Several names in one option of a pass: "layer*.swiglu; norm".
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace asyra {

// Returns the names in their order, without the spaces around them; empty ones
// are left out. Names of values and of passes have no ";".
std::vector<std::string> NamesIn(const std::string& text);

// Returns the text that has these names.
std::string TextOfNames(absl::Span<const std::string> names);

}  // namespace asyra
