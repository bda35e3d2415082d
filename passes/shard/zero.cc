#include "passes/shard/zero.h"

#include <algorithm>

namespace asyra {

bool HasReplicas(AxisRole role) {
  return role == AxisRole::kBatch || role == AxisRole::kSequence ||
         role == AxisRole::kExpert;
}

Type CutForm(const Type& form, const AxisRoles& roles, const Mesh& mesh) {
  Type cut = form;
  if (form.rank() < 2) return cut;
  for (int a = 0; a < mesh.num_axes(); ++a) {
    auto axis = static_cast<AxisId>(a);
    bool data = HasReplicas(roles.role(axis));
    bool used = std::any_of(
        cut.dims.begin(), cut.dims.end(),
        [axis](const Dim& dim) { return Contains(dim.axes, axis); });
    if (!data || used || mesh.size(axis) == 1) continue;
    for (Dim& dim : cut.dims) {
      int64_t devices = mesh.size(dim.axes) * mesh.size(axis);
      if (dim.size % devices != 0) continue;
      dim.axes.push_back(axis);
      break;
    }
  }
  return cut;
}

}  // namespace asyra
