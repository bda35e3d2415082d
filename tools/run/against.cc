#include "tools/run/against.h"

#include "ir/support/status.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine.h"
#include "simulator/replay/simulate.h"

namespace asyra {
namespace {

absl::StatusOr<std::vector<Tensor>> InputsFor(const Program& program,
                                              const Program& of,
                                              absl::Span<const Tensor> given) {
  std::vector<Tensor> inputs;
  for (const Input& input : program.inputs) {
    const std::string& name = program.value_name(input.value);
    const Tensor* found = nullptr;
    for (size_t i = 0; i < of.inputs.size(); ++i) {
      ValueId value = of.inputs[i].value;
      if (of.value_name(value) != name) continue;
      const Type &have = of.type(value), &want = program.type(input.value);
      if (have.dtype != want.dtype ||
          of.GivenShape(of.inputs[i]) != program.GivenShape(input)) {
        return Invalid(
            "input %{} is {}{}, that of the program is {}{}", name,
            ToString(want.dtype), ShapeToString(program.GivenShape(input)),
            ToString(have.dtype), ShapeToString(of.GivenShape(of.inputs[i])));
      }
      found = &given[i];
    }
    if (found == nullptr) {
      return Invalid("input %{} is none of the program's", name);
    }
    inputs.push_back(*found);
  }
  return inputs;
}

absl::StatusOr<Program> LoadOne(const std::string& name,
                                const Program* partitioned) {
  if (name != "unscheduled") {
    CompileFlags options;
    options.model = name;
    ASYRA_ASSIGN_OR_RETURN(LoadedModel loaded, LoadModel(options));
    return std::move(loaded.program);
  }
  if (partitioned == nullptr) {
    return Invalid("a program file runs unchanged, what it was is not known");
  }
  return *partitioned;
}

absl::StatusOr<AgainstProgram> Load(const std::string& name,
                                    const Program& program,
                                    const Program* partitioned,
                                    absl::Span<const Tensor> inputs) {
  AgainstProgram against{.name = name};
  ASYRA_ASSIGN_OR_RETURN(against.program, LoadOne(name, partitioned));
  int64_t devices = against.program.mesh.num_devices(),
          expected = program.mesh.num_devices();
  if (devices != expected) {
    return Invalid("it is for {} devices, the program for {}", devices,
                   expected);
  }
  ASYRA_ASSIGN_OR_RETURN(against.inputs,
                         InputsFor(against.program, program, inputs));
  return against;
}

}  // namespace

absl::StatusOr<std::vector<AgainstProgram>> LoadAgainst(
    absl::Span<const std::string> names, const Program& program,
    const Program* partitioned, absl::Span<const Tensor> inputs) {
  std::vector<AgainstProgram> programs;
  for (const std::string& name : names) {
    absl::StatusOr<AgainstProgram> one =
        Load(name, program, partitioned, inputs);
    if (!one.ok()) return Annotate(one.status(), "--against " + name);
    programs.push_back(*std::move(one));
  }
  return programs;
}

absl::StatusOr<std::vector<double>> PredictUs(
    absl::Span<const Program* const> programs, const CompileFlags& options) {
  ASYRA_ASSIGN_OR_RETURN(Machine machine,
                         LoadMachine(options.machine, MachineEdits(options)));
  std::vector<double> us;
  for (const Program* program : programs) {
    if (program->stage < Stage::kLocal) {
      return Invalid("a program of stage {} has no time",
                     ToString(program->stage));
    }
    CostModel costs(machine, program->mesh, CostsOf(options));
    us.push_back(Simulate(*program, costs).makespan_us);
  }
  return us;
}

}  // namespace asyra
