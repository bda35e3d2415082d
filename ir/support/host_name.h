#pragma once

#include <string>

namespace asyra {

// What the system calls this host; empty if it does not say.
std::string HostName();

}  // namespace asyra
