// A simulated program in a few lines of text.
#pragma once

#include <string>

#include "ir/mesh.h"
#include "simulator/replay.h"

namespace asyra {

// Time, communication by mesh axes, memory, and what the estimate rests on.
// Ends with a newline.
std::string Report(const SimResult& result, const Mesh& mesh);

}  // namespace asyra
