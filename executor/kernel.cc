#include "executor/kernel.h"

#include "absl/algorithm/container.h"

namespace asyra {
namespace {

std::vector<Type> Locals(const std::vector<Type>& types, const Mesh& mesh) {
  std::vector<Type> locals;
  for (const Type& type : types) locals.push_back(type.Local(mesh));
  return locals;
}

}  // namespace

KernelUse::KernelUse(const OpDef& def, AttrMap attrs,
                     std::vector<Type> operands, std::vector<Type> results,
                     Mesh mesh, int64_t rank)
    : def_(&def),
      attrs_(std::move(attrs)),
      operands_(std::move(operands)),
      results_(std::move(results)),
      locals_(Locals(operands_, mesh)),
      local_results_(Locals(results_, mesh)),
      mesh_(std::move(mesh)),
      rank_(rank) {}

KernelUse KernelUse::OfPart(const OpCall& part) const {
  AttrMap attrs = part.attrs;
  for (const AttrDef& attr : ScheduleAttrs()) {
    const AttrValue* value = attrs_.Find(attr.name);
    if (value != nullptr) attrs.Set(attr.name, *value);
  }
  return {part.def,
          std::move(attrs),
          {part.operands.begin(), part.operands.end()},
          {part.results.begin(), part.results.end()},
          mesh_,
          rank_};
}

KernelUse KernelUse::WithRowStrides(std::vector<int64_t> strides) const {
  KernelUse use = *this;
  use.row_strides_ = std::move(strides);
  return use;
}

bool KernelUse::is_dense() const {
  return absl::c_all_of(row_strides_,
                        [](int64_t stride) { return stride == 0; });
}

}  // namespace asyra
