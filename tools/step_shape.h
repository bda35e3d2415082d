// The step of a program, told by how values flow
// (passes/analysis/dim_labels.h).
#pragma once

#include "ir/dim_names.h"
#include "ir/program.h"
#include "simulator/step_shape.h"

namespace asyra {

// Of a program of any stage. Not known where it is an op that has no axis rule.
// `names` are those of its inputs' dimensions, where they are known.
StepShape StepShapeOf(const Program& program, const DimNames& names = {});

}  // namespace asyra
