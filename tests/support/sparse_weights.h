// Files of weights of full size that take no space: all zeros.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "ir/program.h"

namespace asyra {

// Writes a safetensors file with a tensor for each weight of the program, in
// the shape it is given in; the data is a hole in the file.
absl::Status WriteSparseWeights(const Program& program,
                                const std::string& path);

// Memory of the process that is resident now, in bytes.
int64_t ResidentBytes();

}  // namespace asyra
