#include "ir/accumulation.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "ir/happens_before.h"

namespace asyra {
namespace {

const OpDef* Add() {
  static const OpDef* const add = FindOp("add");
  return add;
}

// Returns the operand added to the matmul, whatever its type; -1: other ops.
int Summand(const Body& body) {
  if (body.ops.size() != 2 || !BeginsWithMatmul(body)) return -1;
  const BodyOp& sum = body.ops[1];
  int matmul = body.num_operands;
  if (sum.def != Add() || body.results != std::vector<int>{matmul + 1}) {
    return -1;
  }
  int a = sum.operands[0], b = sum.operands[1];
  if (b == matmul) std::swap(a, b);
  // A factor of the matmul is read again where others have been written.
  bool apart = a == matmul && b < matmul &&
               !absl::c_linear_search(body.ops[0].operands, b);
  return apart ? b : -1;
}

bool SameShape(const Type& a, const Type& b) {
  return a.dtype == b.dtype && a.shape() == b.shape();
}

void CopySchedule(const AttrMap& from, AttrMap* to) {
  for (const AttrDef& attr : ScheduleAttrs()) {
    const AttrValue* value = from.Find(attr.name);
    if (value != nullptr) to->Set(attr.name, *value);
  }
}

}  // namespace

int AccumulatesOn(const Body& body, absl::Span<const Type> types) {
  int onto = Summand(body);
  if (onto < 0) return -1;
  return SameShape(types[onto], types[body.num_operands]) ? onto : -1;
}

int AccumulatesOn(const Program& program, const Op& op) {
  const Body* body = BodyOf(op.attrs);
  int onto = body == nullptr ? -1 : Summand(*body);
  if (onto < 0) return -1;
  std::vector<Type> factors;
  for (int operand : body->ops[0].operands) {
    factors.push_back(program.type(op.operands[operand]).Global());
  }
  const BodyOp& matmul = body->ops[0];
  auto types = InferTypes(*matmul.def, matmul.attrs, factors, Mesh());
  bool same = types.ok() &&
              SameShape((*types)[0], program.type(op.operands[onto]).Global());
  return same ? onto : -1;
}

bool IsMatmul(const Op& op) {
  return op.def->fusable == Fusable::kMatmul && op.results.size() == 1;
}

Body AddedTo(BodyOp matmul, int last) {
  Body body;
  body.num_operands = last + 1;
  body.ops = {std::move(matmul), {Add(), {last, last + 1}, {}}};
  body.results = {last + 2};
  return body;
}

Op AddedTo(const Op& matmul, ValueId onto) {
  BodyOp first{.def = matmul.def, .attrs = matmul.attrs};
  for (const AttrDef& attr : ScheduleAttrs()) first.attrs.Erase(attr.name);
  Op sum = matmul;
  sum.def = FindOp("fusion");
  sum.operands.clear();
  sum.results.clear();
  for (ValueId value : matmul.operands) {
    auto at = absl::c_find(sum.operands, value) - sum.operands.begin();
    if (at == std::ssize(sum.operands)) sum.operands.push_back(value);
    first.operands.push_back(static_cast<int>(at));
  }
  int last = static_cast<int>(sum.operands.size());
  sum.operands.push_back(onto);
  sum.attrs = {{"body", BodyRef(AddedTo(std::move(first), last))}};
  CopySchedule(matmul.attrs, &sum.attrs);
  return sum;
}

std::optional<AddedMatmul> AddedMatmulOf(const Program& program, const Op& op) {
  AddedMatmul added{op};
  added.op.results.clear();
  if (IsMatmul(op)) return added;
  int onto = AccumulatesOn(program, op);
  if (onto < 0) return std::nullopt;
  const BodyOp& first = BodyOf(op.attrs)->ops[0];
  added.op.def = first.def;
  added.op.attrs = first.attrs;
  CopySchedule(op.attrs, &added.op.attrs);
  added.op.operands.clear();
  for (int operand : first.operands) {
    added.op.operands.push_back(op.operands[operand]);
  }
  added.onto = op.operands[onto];
  return added;
}

std::vector<ValueId> SummedInPlace(const Program& program) {
  std::vector<ValueId> under;
  if (program.stage == Stage::kAllocated) return under;
  std::optional<DefUse> uses;
  for (const Op& op : program.ops) {
    int onto = AccumulatesOn(program, op);
    if (onto < 0) continue;
    if (!uses.has_value()) {
      uses.emplace(program);
      under.assign(program.values.size(), kNoValue);
    }
    ValueId value = op.operands[onto];
    int def = uses->def[value];
    if (def < 0 || uses->uses[value].size() > 1 ||
        uses->output_uses[value] > 0) {
      continue;
    }
    const Op& made = program.ops[def];
    if (made.def->is_view || made.def->is_wait || IsConstant(made)) continue;
    if (program.type(value) != program.type(op.results[0])) continue;
    under[op.results[0]] = value;
  }
  // These are written over the state that they replace.
  for (const Output& output : program.outputs) {
    bool replaces = output.alias != kNoValue && !under.empty();
    if (replaces) under[output.value] = kNoValue;
  }
  return under;
}

}  // namespace asyra
