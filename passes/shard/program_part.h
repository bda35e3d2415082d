// Some ops of a program as a program of their own: the parts of a training step
// that are planned one after the other.
#pragma once

#include <vector>

#include "ir/program.h"
#include "passes/analysis/dim_labels.h"

namespace asyra {

struct ProgramPart {
  // Value ids are those of the whole program. Inputs are the whole program's,
  // then values that ops outside of the part make, as data; outputs are those
  // that the part makes.
  Program program;
  DimLabels labels;      // of the whole program, by op of the part
  std::vector<int> ops;  // by op: its index in the whole program
};

// `ops` are indices in the order that the part has; each comes behind those of
// them that it depends on.
ProgramPart PartOf(const Program& whole, const DimLabels& labels,
                   std::vector<int> ops);

}  // namespace asyra
