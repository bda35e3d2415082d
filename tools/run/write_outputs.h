// The outputs of a run in files that other programs read.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "ir/tensor.h"

namespace asyra {

// Forms of the files, and what their names end in.
inline constexpr char kNpy[] = "npy";
inline constexpr char kPb[] = "pb";
inline constexpr char kSafetensors[] = "safetensors";

// The names as names of files, without a suffix: characters other than letters,
// digits, '_', '-' and '.' become '_', and so does a '.' in front; long ones
// are cut. Each is different from the others, also where case does not count:
// later ones get a number.
std::vector<std::string> FileNames(absl::Span<const std::string> names);

// Writes each of the whole `outputs` of the program to a file of its own in
// `folder`, which is made if it is not there; files of the same names are
// replaced. Everything is written before the first of them appears. NumPy has
// no bf16: such outputs become f32 there, with the same values. Returns the
// paths. Errors name the file and the reason.
absl::StatusOr<std::vector<std::string>> WriteOutputs(
    const Program& program, absl::Span<const Tensor> outputs,
    const std::string& folder, const std::string& form);

}  // namespace asyra
