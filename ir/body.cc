#include "ir/body.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

absl::Status OpStatus(const Body& body, size_t op, const absl::Status& status) {
  return Annotate(
      status, fmt::format("op {} of the body, {}", op, body.ops[op].def->name));
}

absl::Status CheckOp(const Body& body, size_t index) {
  const BodyOp& op = body.ops[index];
  if (op.def->fusable == Fusable::kNo) {
    return Invalid("it cannot be part of a fusion");
  }
  if (op.def->fusable == Fusable::kMatmul && index > 0) {
    return Invalid("a matmul is the first op of a body, or none of it");
  }
  if (op.def->fusable == Fusable::kRow && BeginsWithMatmul(body)) {
    return Invalid("a body that begins with a matmul reduces no rows");
  }
  int defined = body.num_operands + static_cast<int>(index);
  for (int value : op.operands) {
    if (value < 0 || value >= defined) {
      return Invalid("it reads %{}, before it there are {} values", value,
                     defined);
    }
  }
  for (const AttrDef& attr : ScheduleAttrs()) {
    if (op.attrs.Find(attr.name) == nullptr) continue;
    return Invalid("{} is for the op that has the body", attr.name);
  }
  AttrMap complete = op.attrs;
  ASYRA_RETURN_IF_ERROR(CompleteAttrs(*op.def, &complete));
  if (!(complete == op.attrs)) return Invalid("attributes are missing");
  return absl::OkStatus();
}

// Every value is read or returned, and returned at most once.
absl::Status CheckUses(const Body& body) {
  std::vector<bool> read(body.num_values(), false);
  std::vector<bool> given = read;
  for (const BodyOp& op : body.ops) {
    for (int value : op.operands) read[value] = true;
  }
  if (body.results.empty()) return Invalid("the body gives no result");
  for (int value : body.results) {
    if (value < body.num_operands || value >= body.num_values()) {
      return Invalid("the body gives %{}, which none of its ops makes", value);
    }
    if (given[value]) return Invalid("the body gives %{} twice", value);
    given[value] = true;
  }
  for (int value = 0; value < body.num_values(); ++value) {
    if (read[value] || given[value]) continue;
    return Invalid("%{} of the body is read by none of its ops", value);
  }
  return absl::OkStatus();
}

absl::Status CheckBody(const Body& body, size_t operands) {
  if (static_cast<size_t>(body.num_operands) != operands) {
    return Invalid("{} operands given, the body takes {}", operands,
                   body.num_operands);
  }
  for (size_t i = 0; i < body.ops.size(); ++i) {
    if (body.ops[i].def == nullptr) {
      return Invalid("op {} of the body has no definition", i);
    }
    ASYRA_RETURN_IF_ERROR(OpStatus(body, i, CheckOp(body, i)));
  }
  return CheckUses(body);
}

// Kernels loop over rows: only the last dimension of x may be non-parallel.
absl::Status CheckRows(const OpCall& call) {
  if (call.def.fusable != Fusable::kRow) return absl::OkStatus();
  ASYRA_ASSIGN_OR_RETURN(AxisRule rule, AxisRuleOf(call));
  const OperandFactors& x = rule.operands[0];
  for (size_t d = 0; d < x.size(); ++d) {
    bool reduced = false;
    for (FactorId id : x[d]) {
      reduced |= rule.factors[id].kind != FactorKind::kParallel;
    }
    bool is_last = d + 1 == x.size();
    if (reduced == is_last) continue;
    return Invalid("it {} dim {} of {}, a row of a fusion is the last one",
                   reduced ? "reduces" : "does not reduce", d, x.size());
  }
  return absl::OkStatus();
}

}  // namespace

BodyCall::BodyCall(const Body& body, size_t op, absl::Span<const Type> types)
    : call_{*body.ops[op].def, body.ops[op].attrs, {}, {}} {
  for (int value : body.ops[op].operands) operands_.push_back(types[value]);
  call_.operands = operands_;
  size_t result = body.num_operands + op;
  if (result < types.size()) call_.results = types.subspan(result, 1);
}

const Body* BodyOf(const AttrMap& attrs) {
  for (const auto& [name, value] : attrs) {
    if (const BodyRef* body = std::get_if<BodyRef>(&value)) return &**body;
  }
  return nullptr;
}

bool BeginsWithMatmul(const Body& body) {
  return !body.ops.empty() && body.ops[0].def->fusable == Fusable::kMatmul;
}

namespace {

absl::StatusOr<std::vector<Type>> GlobalTypes(const Body& body,
                                              absl::Span<const Type> operands) {
  std::vector<Type> types;
  types.reserve(body.num_values());
  for (const Type& type : operands) types.push_back(type.Global());
  for (size_t i = 0; i < body.ops.size(); ++i) {
    const BodyOp& op = body.ops[i];
    BodyCall use(body, i, types);
    auto results = InferTypes(*op.def, op.attrs, use.call().operands, Mesh());
    if (!results.ok()) {
      return Annotate(results.status(), fmt::format("op {} of the body", i));
    }
    types.push_back((*results)[0]);
    ASYRA_RETURN_IF_ERROR(
        OpStatus(body, i, CheckRows(BodyCall(body, i, types).call())));
  }
  return types;
}

}  // namespace

absl::StatusOr<std::vector<Type>> BodyTypes(const Body& body,
                                            absl::Span<const Type> operands,
                                            const Mesh& mesh) {
  ASYRA_RETURN_IF_ERROR(CheckBody(body, operands.size()));
  ASYRA_ASSIGN_OR_RETURN(std::vector<Type> types, GlobalTypes(body, operands));
  bool is_distributed = false;
  for (const Type& type : operands) is_distributed |= type.is_distributed();
  if (!is_distributed) return types;
  ASYRA_ASSIGN_OR_RETURN(AxisRule rule, BodyValuesRule(body, types));
  ASYRA_ASSIGN_OR_RETURN(types, Distribute(rule, operands, types, mesh));
  absl::c_copy(operands, types.begin());
  return types;
}

Shape LoopShape(absl::Span<const Type> types) {
  const Type* largest = &types[0];
  for (const Type& type : types) {
    auto size = [](const Type& t) {
      return std::pair(t.num_elements(), t.rank());
    };
    if (size(type) > size(*largest)) largest = &type;
  }
  return largest->shape();
}

std::string BodyOutline(const Body& body) {
  std::string outline;
  for (const BodyOp& op : body.ops) {
    outline += fmt::format("{}{}(%{})", outline.empty() ? "" : "; ",
                           op.def->name, fmt::join(op.operands, ", %"));
  }
  return outline;
}

std::string OpLabel(const OpDef& def, const AttrMap& attrs) {
  const Body* body = BodyOf(attrs);
  if (body == nullptr) return std::string(def.name);
  std::vector<std::string_view> names;
  for (const BodyOp& op : body->ops) names.push_back(op.def->name);
  return fmt::format("{}({})", def.name, fmt::join(names, "+"));
}

BodyRef::BodyRef(Body body)
    : body_(std::make_shared<const Body>(std::move(body))) {}

bool operator==(const BodyRef& a, const BodyRef& b) {
  return a.body_ == b.body_ || *a.body_ == *b.body_;
}

}  // namespace asyra
