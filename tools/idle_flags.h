// Flags of the compiler that would change nothing beside the others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/program.h"
#include "tools/compile_flags.h"

namespace asyra {

// The stage of a model: the one that a program file begins with, else global.
Stage StageOf(const std::string& model);

inline constexpr char kGridFlag[] = "--grid ";  // and a key
// The flag whose values a key of a grid has: "--dim" of "--grid dim.seq"; other
// flags as they are.
std::string FlagOfGrid(const std::string& flag);

// Error: a flag of `given` (GivenFlags, or FlagOfGrid has it) that none of
// `compilations` reads, with the flag, or the file, that is the reason: "--join
// has no effect with
// --no-bucket". An empty span reads none, for the reason `unless`: "without a
// model".
absl::Status CheckNoneIdle(const std::vector<std::string>& given,
                           absl::Span<const CompileFlags> compilations,
                           std::string_view unless = "");

}  // namespace asyra
