// The transport of a collective, copy engines or the library, as asked for.
// ir/gpu/copy_engine_reach.h says where copy engines can.
#pragma once

#include <string_view>

#include "ir/op_def.h"

namespace asyra {

// Values of the attribute `transport` of collectives.
inline constexpr std::string_view kLibrary = "library";
inline constexpr std::string_view kCopyEngine = "copy_engine";
// The transport of a reduction that is one kernel with its rows
// (ir/plans/fused_reduction.h): the kernel, in the memory of the other devices.
inline constexpr std::string_view kPeerMemory = "peer_memory";
// The transports of collectives on CPUs, whatever they ask for: memory that the
// ranks of a process share, messages of MPI, or of TCP.
inline constexpr std::string_view kSharedMemory = "shared_memory";
inline constexpr std::string_view kMpi = "mpi";
inline constexpr std::string_view kSockets = "sockets";

// Returns whether a collective asks for copy engines. If they cannot carry it,
// the library does.
bool AsksForCopyEngine(const AttrMap& attrs);
// Has a collective ask for them, or for the library.
void AskForCopyEngine(bool asks, AttrMap* attrs);

}  // namespace asyra
