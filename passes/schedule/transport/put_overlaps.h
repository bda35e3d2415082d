// Puts overlaps in the place of the ops that they are made of.
#pragma once

#include <vector>

#include "ir/attr.h"
#include "ir/program.h"
#include "passes/schedule/transport/overlap_sites.h"

namespace asyra {

struct FormedOverlap {
  OverlapSite site;
  AttrMap attrs;  // of the op
};

// Puts overlaps into a scheduled program; no op is in two of them. Neither
// program order of other ops nor their streams change.
void PutOverlaps(std::vector<FormedOverlap> formed, Program* program);

}  // namespace asyra
