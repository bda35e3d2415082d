// Sums over batches of which each device keeps a part.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// The axes over which its devices' parts are still to be summed, by the name of
// a state; none: every device has the sum.
using SumAxes = std::map<std::string, AxisList, std::less<>>;

// Reads the text of an option: "NAME@dp,sp; NAME". Error: an unknown axis.
absl::StatusOr<SumAxes> ReadSumAxes(const std::string& text, const Mesh& mesh);
// Returns the text for the states of accumulate_gradients in `step`; `mesh` is
// the mesh of `step` without the splits of axes (ir/split_axes.h).
std::string SumAxesText(const Program& step, const Mesh& mesh);

// Splits sums of a local program: where a state adds what all devices have,
//
//   %sum = add(%state, %whole)
//
// the first device of the axes adds it and the others add zeros, in a state
// that is partial over them. Changes states that are not partial yet over some
// of their `axes`, for those axes, and returns their number.
absl::StatusOr<int> SplitSums(Program& program, const SumAxes& axes);

}  // namespace asyra
