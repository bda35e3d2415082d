#include "ir/ops/op_list.h"

namespace asyra::ops {
std::vector<OpDef> ReduceOps() { return {}; }
}  // namespace asyra::ops
