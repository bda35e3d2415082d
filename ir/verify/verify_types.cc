#include <algorithm>

#include "ir/identical_ops.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "ir/verify/verify_rules.h"

namespace asyra {
namespace {

// Axes that exist, each once over the whole type.
absl::Status TakeAxes(const AxisList& axes, const Mesh& mesh, AxisList* seen) {
  for (AxisId axis : axes) {
    if (axis < 0 || axis >= mesh.num_axes()) {
      return Invalid("mesh axis {}, there are {}", axis, mesh.num_axes());
    }
    if (Contains(*seen, axis)) {
      return Invalid("axis {} is used twice", mesh.name(axis));
    }
    seen->push_back(axis);
  }
  return absl::OkStatus();
}

absl::Status WellFormed(const Type& type, const Mesh& mesh) {
  AxisList seen;
  for (int d = 0; d < type.rank(); ++d) {
    const Dim& dim = type.dims[d];
    ASYRA_RETURN_IF_ERROR(TakeAxes(dim.axes, mesh, &seen));
    if (dim.size < 0 || dim.size % mesh.size(dim.axes) != 0) {
      return Invalid("dim {} of size {} does not divide over {} = {}", d,
                     dim.size, AxesToString(dim.axes, mesh),
                     mesh.size(dim.axes));
    }
  }
  if (!std::is_sorted(type.partial.begin(), type.partial.end())) {
    return Invalid("partial axes are not in ascending order");
  }
  return TakeAxes(type.partial, mesh, &seen);
}

absl::Status VerifyAttrs(const Program& program, const Op& op) {
  for (const auto& [name, value] : op.attrs) {
    const AxisList* axes = std::get_if<AxisList>(&value);
    AxisList seen;
    if (axes == nullptr) continue;
    absl::Status status = TakeAxes(*axes, program.mesh, &seen);
    if (!status.ok()) {
      return Annotate(status, fmt::format("{}: {}", op.def->name, name));
    }
  }
  AttrMap complete = op.attrs;
  ASYRA_RETURN_IF_ERROR(CompleteAttrs(*op.def, &complete));
  for (const auto& [name, value] : complete) {
    if (op.attrs.Find(name) == nullptr) {
      return Invalid("{}: attribute {} is missing", op.def->name, name);
    }
  }
  return absl::OkStatus();
}

// Not allowed in stages before local.
absl::Status VerifyGlobal(const Program& program, const Op& op) {
  std::string_view found = op.is_collective()       ? "a collective"
                           : op.start               ? "a start"
                           : op.def->is_wait        ? "a wait"
                           : op.stream != kNoStream ? "a stream"
                           : !op.after.empty()      ? "an after"
                                                    : "";
  for (ValueId value : op.results) {
    if (program.type(value).is_distributed()) found = "a distributed result";
  }
  if (found.empty()) return absl::OkStatus();
  return OpError(program, op,
                 fmt::format("{} in a program of stage global", found));
}

absl::Status VerifyResults(const Program& program, const Op& op) {
  absl::StatusOr<std::vector<Type>> types =
      InferTypes(*op.def, op.attrs, program.OperandTypes(op), program.mesh);
  if (!types.ok()) return OpError(program, op, MessageOf(types.status()));
  if (types->size() != op.results.size()) {
    return OpError(program, op,
                   fmt::format("{} results, the definition gives {}",
                               op.results.size(), types->size()));
  }
  for (size_t i = 0; i < types->size(); ++i) {
    Type& inferred = (*types)[i];
    inferred.future = op.start;
    if (program.type(op.results[i]) != inferred) {
      return OpError(
          program, op,
          fmt::format("result {} is {}, the definition gives {}", i,
                      ToString(program.type(op.results[i]), program.mesh),
                      ToString(inferred, program.mesh)));
    }
  }
  return absl::OkStatus();
}

// A state may be partial: each device keeps its own part of a sum.
absl::Status VerifyInput(const Program& program, const Input& input) {
  ValueId value = input.value;
  const Type& type = program.type(value);
  std::string place = "input %" + program.value_name(value);
  absl::Status status = WellFormed(type, program.mesh);
  if (!status.ok()) return Annotate(status, place);
  bool partial = !type.partial.empty() && input.role != InputRole::kState;
  if (type.future || partial) {
    return Invalid("{} is {}, it has no value of its own", place,
                   ToString(type, program.mesh));
  }
  if (program.stage == Stage::kGlobal && type.is_distributed()) {
    return Invalid("{} is {} in a program of stage global", place,
                   ToString(type, program.mesh));
  }
  return absl::OkStatus();
}

absl::Status VerifyOutput(const Program& program, const Output& output) {
  const Type& type = program.type(output.value);
  if (output.alias != kNoValue && type != program.type(output.alias)) {
    return Invalid("output %{} is {}, the state %{} it replaces is {}",
                   program.value_name(output.value),
                   ToString(type, program.mesh),
                   program.value_name(output.alias),
                   ToString(program.type(output.alias), program.mesh));
  }
  bool partial = !type.partial.empty() && output.alias == kNoValue;
  if (!type.future && !partial) return absl::OkStatus();
  return Invalid("output %{} is {}, it must be {}",
                 program.value_name(output.value), ToString(type, program.mesh),
                 type.future ? "waited for" : "whole: no axis partial");
}

}  // namespace

absl::Status VerifyTypes(const Program& program) {
  for (const Input& input : program.inputs) {
    ASYRA_RETURN_IF_ERROR(VerifyInput(program, input));
  }
  IdenticalOps identical(program);
  for (int i = 0; i < static_cast<int>(program.ops.size()); ++i) {
    const Op& op = program.ops[i];
    // An op like a verified one differs at most in `after`.
    if (identical.FirstIdentical(i) != i &&
        (program.stage != Stage::kGlobal || op.after.empty())) {
      continue;
    }
    // Before the op is printed: names of axes that do not exist.
    for (ValueId value : op.results) {
      absl::Status status = WellFormed(program.type(value), program.mesh);
      if (!status.ok()) {
        return Annotate(
            status, fmt::format("result %{} of {}", program.value_name(value),
                                op.def->name));
      }
    }
    ASYRA_RETURN_IF_ERROR(VerifyAttrs(program, op));
    if (program.stage == Stage::kGlobal) {
      ASYRA_RETURN_IF_ERROR(VerifyGlobal(program, op));
    }
    ASYRA_RETURN_IF_ERROR(VerifyResults(program, op));
  }
  for (const Output& output : program.outputs) {
    ASYRA_RETURN_IF_ERROR(VerifyOutput(program, output));
  }
  if (program.stage == Stage::kAllocated) return absl::OkStatus();
  for (const Value& value : program.values) {
    if (value.offset >= 0) {
      return Invalid("%{} has offset {} in a program of stage {}", value.name,
                     value.offset, ToString(program.stage));
    }
  }
  return absl::OkStatus();
}

}  // namespace asyra
