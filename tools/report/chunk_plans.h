// The chunk plans of a program as text, for asyra-opt.
#pragma once

#include <string>

#include "ir/program.h"

namespace asyra {

// Each overlap and its plan (ir/plans/plan_text.h), which form_overlaps takes
// back from a file, or the program behind the op's body.
std::string ChunkPlansText(const Program& program);

}  // namespace asyra
