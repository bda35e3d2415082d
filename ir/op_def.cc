#include "ir/op_def.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

absl::Status CheckOperandCount(const OpDef& def, size_t count) {
  size_t least = 0;
  bool variadic = false;
  for (const OperandDef& operand : def.operands) {
    least += operand.arity != OperandDef::kOptional;
    variadic |= operand.arity == OperandDef::kVariadic;
  }
  if (count < least || (!variadic && count > def.operands.size())) {
    return Invalid("{} operands given, it takes {}{}", count, least,
                   variadic ? " or more"
                   : least < def.operands.size()
                       ? fmt::format(" to {}", def.operands.size())
                       : "");
  }
  return absl::OkStatus();
}

// Sizes of results are counted in int64_t everywhere.
absl::Status CheckSizes(absl::Span<const Type> types) {
  for (const Type& type : types) {
    int64_t bytes = SizeOf(type.dtype);
    for (const Dim& dim : type.dims) {
      if (__builtin_mul_overflow(bytes, dim.size, &bytes)) {
        return Invalid("the result {} has more than 2^63 bytes",
                       ToString(type, {}));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> InferUnprefixed(
    const OpDef& def, const AttrMap& attrs, absl::Span<const Type> operands,
    const Mesh& mesh) {
  ASYRA_RETURN_IF_ERROR(CheckOperandCount(def, operands.size()));
  bool distributed = false;
  std::vector<Type> global;
  for (const Type& type : operands) {
    if (type.future && !def.is_wait) {
      return Invalid("an operand is a future, it must be waited for");
    }
    distributed |= type.is_distributed();
    global.push_back(type.Global());
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> results,
                         def.infer({def, attrs, global, {}}));
  ASYRA_RETURN_IF_ERROR(CheckSizes(results));
  if (def.distribute != nullptr) {
    return def.distribute({def, attrs, operands, results}, mesh);
  }
  if (!distributed) return results;
  ASYRA_ASSIGN_OR_RETURN(AxisRule rule,
                         def.axes({def, attrs, global, results}));
  return Distribute(rule, operands, results, mesh);
}

double Bytes(absl::Span<const Type> types) {
  double bytes = 0;
  for (const Type& type : types) bytes += static_cast<double>(type.bytes());
  return bytes;
}

}  // namespace

Work WorkOf(const OpCall& call, const Mesh& mesh) {
  if (call.def.work_over != nullptr) return call.def.work_over(call, mesh);
  std::vector<Type> operands, results;
  for (const Type& type : call.operands) operands.push_back(type.Local(mesh));
  for (const Type& type : call.results) results.push_back(type.Local(mesh));
  if (call.def.is_view) return {};
  if (call.def.work != nullptr) {
    return call.def.work({call.def, call.attrs, operands, results});
  }
  Work work;
  work.read_bytes = Bytes(operands);
  work.write_bytes = Bytes(results);
  for (const Type& type : results) {
    work.flops += static_cast<double>(type.num_elements());
  }
  return work;
}

absl::Span<const AttrDef> ScheduleAttrs() {
  static const auto* attrs = new std::vector<AttrDef>{
      {"sm_margin", AttrKind::kInt, "SMs left to collectives"}};
  return *attrs;
}

int SmMargin(const AttrMap& attrs) {
  const AttrValue* margin = attrs.Find("sm_margin");
  return margin == nullptr ? 0 : static_cast<int>(std::get<int64_t>(*margin));
}

const AttrDef* FindAttr(const OpDef& def, std::string_view name) {
  for (const AttrDef& attr : def.attrs) {
    if (attr.name == name) return &attr;
  }
  for (const AttrDef& attr : ScheduleAttrs()) {
    if (attr.name == name) return &attr;
  }
  return nullptr;
}

absl::Status CheckWord(const OpDef& def, const AttrDef& attr,
                       const AttrValue& value) {
  if (attr.words.empty()) return absl::OkStatus();
  const auto& word = std::get<std::string>(value);
  if (absl::c_linear_search(attr.words, word)) return absl::OkStatus();
  return Invalid("{}: {} is {}, it must be {}", def.name, attr.name, word,
                 fmt::join(attr.words, " or "));
}

absl::Status CompleteAttrs(const OpDef& def, AttrMap* attrs) {
  for (const auto& [name, value] : *attrs) {
    const AttrDef* known = FindAttr(def, name);
    if (known == nullptr) {
      return Invalid("{}: unknown attribute {}", def.name, name);
    }
    if (KindOf(value) != known->kind) {
      return Invalid("{}: attribute {} is {}, it should be {}", def.name, name,
                     ToString(KindOf(value)), ToString(known->kind));
    }
    ASYRA_RETURN_IF_ERROR(CheckWord(def, *known, value));
  }
  for (const AttrDef& attr : def.attrs) {
    if (attrs->Find(attr.name) != nullptr) continue;
    if (!attr.default_value.has_value()) {
      return Invalid("{}: attribute {} is missing", def.name, attr.name);
    }
    attrs->Set(attr.name, *attr.default_value);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> InferTypes(const OpDef& def,
                                             const AttrMap& attrs,
                                             absl::Span<const Type> operands,
                                             const Mesh& mesh) {
  absl::StatusOr<std::vector<Type>> types =
      InferUnprefixed(def, attrs, operands, mesh);
  if (!types.ok()) return Annotate(types.status(), def.name);
  return types;
}

absl::StatusOr<AxisRule> AxisRuleOf(const OpCall& call) {
  if (call.def.axes == nullptr) {
    return Invalid("{}: has no axis rule", call.def.name);
  }
  std::vector<Type> operands, results;
  for (const Type& type : call.operands) operands.push_back(type.Global());
  for (const Type& type : call.results) results.push_back(type.Global());
  return call.def.axes({call.def, call.attrs, operands, results});
}

}  // namespace asyra
