// Counts what is allocated in this process: the test's operators new replace
// those of the library, and so do those of every library it uses.
#pragma once

#include <cstdint>

namespace asyra {

// Since the process began, but for what oneDNN takes: it makes a table of the
// arguments each time that a primitive runs, and offers no other way.
int64_t AllocationsSoFar();

}  // namespace asyra
