// Built-in models: builders of the raised form of well-known architectures at
// any size, for what-if questions without a file. Their weights have no data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// `dims` overrides the sizes of the data inputs: batch and seq.
// Errors: an unknown name (the known ones are listed), an unknown dimension.
absl::StatusOr<Program> BuiltinModel(
    std::string_view name, const std::map<std::string, int64_t>& dims);

// "llama3-8b, llama3-70b, ...".
std::string BuiltinModelNames();

}  // namespace asyra
