// The files of what asyra-bench measured.
#pragma once

#include <filesystem>

#include "absl/status/status.h"
#include "tools/bench/bench.h"

namespace asyra {

// Writes `path`, a *.machine file, and NAME.table beside it: the machine of
// `options`, on a cpu a plain one, with its edits and with what was measured in
// its place. Errors, nothing written: what could not be read again; a base
// that is no machine.
absl::Status WriteMachine(const BenchOptions& options,
                          const BenchResult& result,
                          const std::filesystem::path& path);

}  // namespace asyra
