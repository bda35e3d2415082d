#include "ir/ops/op_list.h"

namespace asyra::ops {
std::vector<OpDef> ShapeOps() { return {}; }
}  // namespace asyra::ops
