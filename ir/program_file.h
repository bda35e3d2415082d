// Programs in .asyra files.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// The verified program of a file, with the weights of the .safetensors file
// beside it. Errors, naming the file: it cannot be read, is no program, or one
// that Verify refuses; those of ReadWeightsBeside.
absl::StatusOr<Program> ReadProgramFile(const std::string& path);
// The program alone.
absl::StatusOr<Program> ReadProgramText(const std::string& path);

}  // namespace asyra
