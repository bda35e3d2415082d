// The ops of overlaps in their place (InlineOverlaps).
#include <algorithm>

#include "absl/algorithm/container.h"
#include "ir/builder.h"
#include "ir/overlap.h"
#include "ir/plans/fused_reduction.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// The stream of collectives over `axes`.
StreamId StreamOf(const Program& program, const AxisList& axes,
                  Builder* builder) {
  auto sorted = [](AxisList list) {
    std::sort(list.begin(), list.end());
    return list;
  };
  for (const Op& op : program.ops) {
    if (op.is_collective() &&
        sorted(op.attrs.Get<AxisList>("axes")) == sorted(axes)) {
      return op.stream;
    }
  }
  std::string name;
  for (AxisId axis : axes) name += program.mesh.name(axis);
  return builder->mutable_program().Stream(name);
}

// Appends the ops of one overlap to a program that is built anew; `map` is from
// the old program's values.
class Inliner {
 public:
  Inliner(const Program& program, const Op& op, Builder* builder,
          std::vector<ValueId>* map)
      : program_(program),
        op_(op),
        body_(*BodyOf(op.attrs)),
        builder_(builder),
        map_(map) {
    if (op.stream != kNoStream) {
      collectives_ = StreamOf(program, AxesOf(body_), builder);
    }
    for (ValueId value : op.operands) values_.push_back((*map)[value]);
    for (ValueId value : op.after) after_.push_back((*map)[value]);
  }

  absl::Status Run() {
    ASYRA_ASSIGN_OR_RETURN(
        types_, OverlapTypes(body_, program_.OperandTypes(op_), program_.mesh));
    if (IsOneKernel(op_.attrs)) return AddFused();
    for (size_t i = 0; i < body_.ops.size(); ++i) {
      std::vector<ValueId> operands;
      for (int value : body_.ops[i].operands) {
        operands.push_back(values_[value]);
      }
      values_.push_back(AddPart(i, std::move(operands)));
    }
    for (size_t r = 0; r < op_.results.size(); ++r) {
      (*map_)[op_.results[r]] = values_[body_.results[r]];
    }
    return absl::OkStatus();
  }

 private:
  int Made(size_t part) const {
    return body_.num_operands + static_cast<int>(part);
  }

  // Results keep their names.
  std::string NameOf(int value) const {
    auto result = absl::c_find(body_.results, value);
    if (result == body_.results.end()) {
      return program_.value_name(op_.results[0]) + ".part";
    }
    return program_.value_name(op_.results[result - body_.results.begin()]);
  }

  // The first op waits for what the overlap waited for.
  Op OnItsStream(Op op) {
    op.stream = op_.stream;
    op.after.assign(after_.begin(), after_.end());
    after_.clear();
    return op;
  }

  // Op `index` of the body. A collective of a scheduled program waits for its
  // operand, wherever it is, and is waited for.
  ValueId AddPart(size_t index, std::vector<ValueId> operands) {
    Op part = OnItsStream(
        {.def = body_.ops[index].def, .attrs = body_.ops[index].attrs});
    part.operands.assign(operands.begin(), operands.end());
    const Type& type = types_[Made(index)];
    std::string name = NameOf(Made(index));
    if (!part.is_collective() || collectives_ == kNoStream) {
      return builder_->Append(std::move(part), {&type, 1}, {&name, 1})[0];
    }
    Op wait{.def = FindOp("wait"), .stream = part.stream};
    ASYRA_CHECK_OK(CompleteAttrs(*wait.def, &wait.attrs));
    part.stream = collectives_;
    part.start = true;
    Type future = type;
    future.future = true;
    std::string started = name + ".future";
    wait.operands.push_back(
        builder_->Append(std::move(part), {&future, 1}, {&started, 1})[0]);
    return builder_->Append(std::move(wait), {&type, 1}, {&name, 1})[0];
  }

  // A reduction, one op or a fusion for the rows, and gathers.
  absl::Status AddFused() {
    ASYRA_ASSIGN_OR_RETURN(
        FusedReduction fused,
        FusedReductionOf(body_, program_.OperandTypes(op_), program_.mesh));
    values_[fused.summed] = AddPart(0, {values_[fused.summed]});
    Op rows = OnItsStream({});
    if (fused.rows.ops.size() == 1) {
      const BodyOp& only = fused.rows.ops[0];
      rows.def = only.def;
      rows.attrs = only.attrs;
      for (int value : only.operands) rows.operands.push_back(values_[value]);
    } else {
      rows.def = FindOp("fusion");
      rows.attrs = {{"body", BodyRef(fused.rows)}};
      rows.operands.assign(values_.begin(), values_.end());
    }
    std::vector<std::string> names;
    for (size_t r = 0; r < op_.results.size(); ++r) {
      names.push_back(program_.value_name(op_.results[r]) +
                      (fused.gathered[r] < 0 ? "" : ".part"));
    }
    std::vector<ValueId> made =
        builder_->Append(std::move(rows), fused.results, names);
    for (size_t r = 0; r < made.size(); ++r) {
      ValueId& result = (*map_)[op_.results[r]];
      result = made[r];
      if (fused.gathered[r] < 0) continue;
      result = AddPart(body_.results[r] - body_.num_operands, {made[r]});
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const Op& op_;
  const Body& body_;
  Builder* builder_;
  std::vector<ValueId>* map_;
  StreamId collectives_ = kNoStream;
  std::vector<Type> types_;      // by value of the body
  std::vector<ValueId> values_;  // the same, in the new program
  std::vector<ValueId> after_;
};

}  // namespace

absl::StatusOr<Program> InlineOverlaps(
    const Program& program, const std::function<bool(const Op&)>& which) {
  auto goes = [&](const Op& op) {
    return IsOverlap(*op.def) && (which == nullptr || which(op));
  };
  if (absl::c_none_of(program.ops, goes)) return program;
  Builder builder = Builder::Like(program);
  if (program.stage == Stage::kAllocated) {
    builder.mutable_program().stage = Stage::kScheduled;
  }
  std::vector<ValueId> map(program.values.size(), kNoValue);
  for (const Input& input : program.inputs) {
    map[input.value] = builder.Input(program, input);
  }
  for (const Op& op : program.ops) {
    if (goes(op)) {
      ASYRA_RETURN_IF_ERROR(Inliner(program, op, &builder, &map).Run());
      continue;
    }
    Op copy = op;
    copy.results.clear();
    for (ValueId& value : copy.operands) value = map[value];
    for (ValueId& value : copy.after) value = map[value];
    std::vector<std::string> names;
    for (ValueId value : op.results) names.push_back(program.value_name(value));
    std::vector<ValueId> made =
        builder.Append(std::move(copy), program.ResultTypes(op), names);
    for (size_t r = 0; r < made.size(); ++r) map[op.results[r]] = made[r];
  }
  for (const Output& output : program.outputs) {
    builder.Output(map[output.value],
                   output.alias == kNoValue ? kNoValue : map[output.alias],
                   output.name);
  }
  return std::move(builder).Finish();
}

}  // namespace asyra
