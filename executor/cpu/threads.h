// How many threads oneDNN uses (our own loops use one), and which come first.
#pragma once

namespace asyra {

// At most so many, for what the calling thread prepares and runs from here on;
// 1 unless it is set.
void SetComputeThreads(int threads);
int ComputeThreads();

// Exactly so many, for the primitives that the calling thread makes and runs
// from here on. A primitive is run with as many as it was made with.
void UseThreads(int threads);

// Gives the calling thread, which works little and which others wait for, a
// realtime priority where the process may (CAP_SYS_NICE, RLIMIT_RTPRIO): on
// busy cores it then runs at once, not after another thread's time slice of
// some milliseconds. Elsewhere it gets short time slices (Linux 6.12 and
// newer), which help less: it may be woken late right after it has run.
void RunFirst();

}  // namespace asyra
