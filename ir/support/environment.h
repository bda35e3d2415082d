// The source of environment variables, so that tests can give theirs.
#pragma once

#include <functional>

namespace asyra {

// Value of an environment variable; null if it is not set.
using Environment = std::function<const char*(const char* name)>;

}  // namespace asyra
