#pragma once

#include <string>

namespace asyra {

// The name of this host, as the system says; empty if it does not.
std::string HostName();

}  // namespace asyra
