// Loading, compiling and simulating programs from C.
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "c/handles.h"
#include "frontends/huggingface/import.h"
#include "frontends/onnx/import.h"
#include "ir/printer.h"
#include "ir/program_file.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/weights/weight_store.h"
#include "models/models.h"
#include "passes/compile.h"
#include "passes/schedule/order/order_search.h"
#include "simulator/cost/load_machine.h"

namespace asyra::c {
namespace {

// "dp=2,tp=4" in its order.
absl::StatusOr<std::vector<std::pair<std::string, int64_t>>> ReadSizes(
    const char* text) {
  std::vector<std::pair<std::string, int64_t>> sizes;
  if (text == nullptr || *text == '\0') return sizes;
  std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    std::pair<std::string, std::string> one =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    int64_t size = 0;
    if (!absl::SimpleAtoi(one.second, &size) || size < 1) {
      return Invalid("'{}' is no NAME=SIZE, as in \"batch=4,seq=128\"", part);
    }
    sizes.emplace_back(one.first, size);
  }
  return sizes;
}

absl::StatusOr<std::unique_ptr<asyra_program>> Load(const std::string& model,
                                                    const char* dims) {
  auto to = std::make_unique<asyra_program>();
  ASYRA_ASSIGN_OR_RETURN(auto sizes, ReadSizes(dims));
  std::map<std::string, int64_t> by_name;
  for (const auto& [name, size] : sizes) {
    if (by_name.emplace(name, size).second) continue;
    return Invalid("'{}': {} is given twice", dims, name);
  }
  if (model.ends_with(".onnx")) {
    ASYRA_ASSIGN_OR_RETURN(
        to->program, ImportOnnx(model, {.dims = by_name}, &to->dim_names));
  } else if (model.ends_with(".asyra")) {
    if (!sizes.empty()) {
      return Invalid("{}: its sizes are fixed, {} would not matter", model,
                     dims);
    }
    ASYRA_ASSIGN_OR_RETURN(to->program, ReadProgramFile(model));
  } else if (std::string file = HuggingFaceConfig(model); !file.empty()) {
    ASYRA_ASSIGN_OR_RETURN(to->program, ImportHuggingFace(file, by_name));
  } else {
    ASYRA_ASSIGN_OR_RETURN(to->program, BuiltinModel(model, by_name));
  }
  return to;
}

absl::StatusOr<std::unique_ptr<asyra_program>> CompileFor(
    const asyra_program& model, const char* axes, const char* name,
    int32_t search_steps) {
  if (search_steps < 0 || search_steps > kMostSearchSteps) {
    return Invalid("search_steps is {}, it should be 0 to {}", search_steps,
                   kMostSearchSteps);
  }
  ASYRA_ASSIGN_OR_RETURN(auto sizes, ReadSizes(axes));
  std::vector<Mesh::Axis> list;
  for (const auto& [axis, size] : sizes) list.push_back({axis, size});
  ASYRA_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create(std::move(list)));
  ASYRA_ASSIGN_OR_RETURN(Machine machine, LoadMachine(name));
  CompileOptions options;
  if (search_steps > 0) options.schedule.search_steps = search_steps;
  ASYRA_ASSIGN_OR_RETURN(RaisedProgram raised,
                         Raise(model.program, options, model.dim_names));
  ASYRA_ASSIGN_OR_RETURN(CompileResult result,
                         Compile(raised, mesh, machine, options));
  auto compiled = std::make_unique<asyra_program>();
  compiled->program = std::move(result.program);
  return compiled;
}

absl::Status SimulateOn(const Program& program, const char* name,
                        asyra_simulation* to) {
  if (program.stage == Stage::kGlobal) {
    return Invalid("@{} is not compiled: it has no step to simulate",
                   program.name);
  }
  ASYRA_ASSIGN_OR_RETURN(Machine machine, LoadMachine(name));
  SimResult result =
      Simulate(program, CostModel(std::move(machine), program.mesh));
  return FillStruct<asyra_simulation>(
      "asyra_simulation",
      {.makespan_us = result.makespan_us,
       .exposed_comm_us = result.exposed_comm_us,
       .lower_bound_us = result.lower_bound_us,
       .peak_bytes = result.peak_bytes},
      to);
}

absl::Status Save(const Program& program, const std::string& path) {
  if (program.weights != nullptr) {
    ASYRA_RETURN_IF_ERROR(WriteWeights(*program.weights, WeightPathFor(path)));
  }
  return WriteFileAtomically(path, {ToString(program)});
}

}  // namespace
}  // namespace asyra::c

using asyra::c::Guarded;
using asyra::c::Make;

asyra_status asyra_program_load(const char* model, const char* dims,
                                asyra_program** program) {
  return Make({{"model", model}, {"program", program}}, program,
              [&] { return asyra::c::Load(model, dims); });
}

asyra_status asyra_program_compile(const asyra_program* model, const char* mesh,
                                   const char* machine, int32_t search_steps,
                                   asyra_program** program) {
  return Make({{"model", model}, {"machine", machine}, {"program", program}},
              program, [&] {
                return asyra::c::CompileFor(*model, mesh, machine,
                                            search_steps);
              });
}

asyra_status asyra_program_save(const asyra_program* program,
                                const char* path) {
  return Guarded({{"program", program}, {"path", path}},
                 [&] { return asyra::c::Save(program->program, path); });
}

asyra_status asyra_program_simulate(const asyra_program* program,
                                    const char* machine,
                                    asyra_simulation* result) {
  return Guarded(
      {{"program", program}, {"machine", machine}, {"result", result}},
      [&] { return asyra::c::SimulateOn(program->program, machine, result); });
}

int64_t asyra_program_ranks(const asyra_program* program) {
  if (!asyra::c::IsGiven("program", program)) return -1;
  return program->program.mesh.num_devices();
}

void asyra_program_free(asyra_program* program) { delete program; }
