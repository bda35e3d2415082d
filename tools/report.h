// What asyra-opt prints: what was imported, the plan, the schedule before and
// after.
#pragma once

#include <string>

#include "tools/compile.h"

namespace asyra {

std::string TextReport(const CompileOptions& options,
                       const CompileResult& result);
// One object with `baseline` and `optimized`, each with makespan_us, bubble,
// exposed_comm_us, peak_bytes, ops and collectives; see README.md.
std::string JsonReport(const CompileOptions& options,
                       const CompileResult& result);

}  // namespace asyra
