// The streams of a program that compute.
#pragma once

#include <string_view>

#include "ir/program.h"

namespace asyra {

// The name of the compute stream that passes make, and with what the names of
// all compute streams begin.
inline constexpr std::string_view kComputeStream = "compute";

// Returns whether a stream computes, by its name; all others are for
// collectives, and have a higher priority. Ops without a stream (kNoStream)
// compute.
bool IsComputeStream(const Program& program, StreamId stream);

// Returns the compute stream on which most ops of a scheduled program run, the
// first of equals: other compute streams take short chains beside it. Programs
// written by hand may name none so; then it is any stream on which most run.
// Collectives do not count, since they only begin there.
StreamId MainComputeStream(const Program& program);

}  // namespace asyra
