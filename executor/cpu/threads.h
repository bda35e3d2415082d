// How many threads oneDNN uses; our own loops use one.
#pragma once

namespace asyra {

// At most so many, for what the calling thread prepares and runs from here on;
// 1 unless it is set.
void SetComputeThreads(int threads);
int ComputeThreads();

// Exactly so many, for the primitives that the calling thread makes and runs
// from here on. A primitive is run with as many as it was made with.
void UseThreads(int threads);

}  // namespace asyra
