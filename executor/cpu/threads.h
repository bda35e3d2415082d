// Number of threads of oneDNN (loops of this project use one), and thread
// priorities.
#pragma once

namespace asyra {

// Upper limit for what the calling thread prepares and runs from here on; 1
// unless it is set.
void SetComputeThreads(int threads);
int ComputeThreads();

// Exact number for the primitives that the calling thread makes and runs from
// here on. A primitive must run with the number it was made with.
void UseThreads(int threads);

// Gives the calling thread a real-time priority where the process may
// (CAP_SYS_NICE, RLIMIT_RTPRIO). Meant for a thread that works little and that
// others wait for: on busy cores it then runs at once, not after another
// thread's time slice of some milliseconds. Without that right it gets short
// time slices (Linux 6.12 and newer), which help less: it may still be woken
// late right after it has run.
void RunFirst();

}  // namespace asyra
