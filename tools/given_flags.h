// The flags that a command line has.
#pragma once

#include <string>
#include <vector>

#include "CLI/App.hpp"

namespace asyra {

// The names of those options that were given, in the order of `options`:
// "--steps". No positional ones, no --help.
std::vector<std::string> GivenFlags(const std::vector<CLI::Option*>& options);

}  // namespace asyra
