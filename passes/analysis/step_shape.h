// Batch, tokens and element type of a program's step, derived from how values
// flow (passes/analysis/dim_labels.h).
#pragma once

#include "ir/dim_names.h"
#include "ir/program.h"
#include "simulator/report/step_shape.h"

namespace asyra {

// Finds the shape for a program of any stage. Unknown if an op has no axis
// rule. `names` are those of its inputs' dimensions, where they are known.
StepShape StepShapeOf(const Program& program, const DimNames& names = {});

}  // namespace asyra
