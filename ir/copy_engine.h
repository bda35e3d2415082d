// What copy engines can carry of the collectives: the one rule that passes,
// costs and executors go by. It is about the op alone. Whether the devices of
// its group reach each other's memory is told by the machine's description
// (simulator/collective_cost.h) before a program runs, and by the devices
// (Communicator::CarriesByCopyEngine) when it does.
#pragma once

#include <string_view>

#include "ir/op_def.h"

namespace asyra {

// Values of the attribute `transport` of collectives.
inline constexpr std::string_view kLibrary = "library";
inline constexpr std::string_view kCopyEngine = "copy_engine";

// Whether a collective asks for copy engines. Where they cannot carry it, the
// library does.
bool AsksForCopyEngine(const AttrMap& attrs);
// Has a collective ask for them, or for the library.
void AskForCopyEngine(bool asks, AttrMap* attrs);

// Whether they can carry `call`, which has distributed types: a collective of
// one value that is not empty. Reductions are of floats, and each device adds
// up parts of a multiple of 16 bytes, as its kernel reads them.
bool CopyEnginesCanCarry(const OpCall& call, const Mesh& mesh);

}  // namespace asyra
