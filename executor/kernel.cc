#include "executor/kernel.h"

#include "ir/support/status.h"

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

absl::Status KernelUse::RequireDense() const {
  for (size_t i = 0; i < row_strides_.size(); ++i) {
    if (row_strides_[i] == 0) continue;
    return Unimplemented(
        "{}: rows of operand {} are {} elements apart, its kernel takes dense "
        "ones",
        def_->name, i, row_strides_[i]);
  }
  return absl::OkStatus();
}

}  // namespace asyra
