// How many threads the kernels of one stream use.
#pragma once

namespace asyra {

// For kernels that the calling thread runs from here on; those of oneDNN, the
// others use one.
void SetComputeThreads(int threads);

}  // namespace asyra
