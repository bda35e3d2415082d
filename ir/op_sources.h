// The sources of ops in the model's file. Kept beside the program, as
// ir/dim_names.h is, for messages alone; not part of the text form.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace asyra {

// By name of a value: what the file computes it with, "TopK node 'router'".
using OpSources = std::map<std::string, std::string, std::less<>>;

// The entry of the value, or of the value that it was made from: passes name
// what they add "NAME.1", "NAME.back". "" if there is none.
std::string_view SourceOf(const OpSources& sources, std::string_view value);

}  // namespace asyra
