#include "ir/ops/op_list.h"

namespace asyra::ops {
std::vector<OpDef> EmbedOps() { return {}; }
}  // namespace asyra::ops
