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

// The calling thread works little and others wait for it: where it finds all
// cores busy, it is let in at once and not only when somebody's slice of time
// is over, which are milliseconds. It gets a realtime priority where the
// process may give one (CAP_SYS_NICE, RLIMIT_RTPRIO), short slices of its own
// elsewhere (Linux 6.12 and newer), which help less: a wake may come too late
// again right after the thread has run.
void RunFirst();

}  // namespace asyra
