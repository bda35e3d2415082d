// Padding of weights as a text, so that a program has that of another one.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// Returns how PadDims has padded the weights of `program`: "11=12,50257=50272",
// or "none".
std::string PaddedSizes(const Program& program);

// Pads a global program so, as PadDimensions does. False: it has none of the
// sizes. Error: no such text.
absl::StatusOr<bool> PadSizes(Program& program, std::string_view sizes,
                              bool trained = false);

}  // namespace asyra
