#include "ir/ops/op_list.h"

namespace asyra::ops {
std::vector<OpDef> AttentionOps() { return {}; }
}  // namespace asyra::ops
