#include "tools/report/step_memory.h"

#include <array>

#include "fmt/format.h"
#include "ir/accumulation.h"
#include "ir/memory/buffer_map.h"
#include "ir/support/units.h"
#include "nlohmann/json.hpp"
#include "passes/train/step_phase.h"
#include "passes/train/wide_type.h"
#include "simulator/replay/library_memory.h"
#include "simulator/replay/memory.h"

namespace asyra {
namespace {

enum Kind {
  kParameters,
  kMaster,
  kMoments,
  kGradients,
  kStash,
  kInputs,
  kValues,
  kPlacement,
  kWorkspace,
  kLibraries,
  kNumKinds
};
constexpr const char* kNames[kNumKinds] = {
    "parameters", "master", "moments",   "gradients", "stash",
    "inputs",     "values", "placement", "workspace", "libraries"};

// Tells what each buffer is for by who writes and who reads it.
class Classifier {
 public:
  Classifier(const Program& program, const std::vector<StepPhase>& phases,
             std::vector<ValueId> buffer_of)
      : program_(program),
        phases_(phases),
        buffer_of_(std::move(buffer_of)),
        kind_(program.values.size(), kValues),
        of_params_(program.values.size(), false) {
    Inputs();
    Forwards();
    Backwards();
  }

  Kind Of(ValueId buffer) const { return kind_[buffer]; }

 private:
  Kind& At(ValueId value) { return kind_[buffer_of_[value]]; }

  void Inputs() {
    for (const Input& input : program_.inputs) {
      At(input.value) = input.role == InputRole::kParam   ? kParameters
                        : input.role == InputRole::kState ? kMoments
                                                          : kInputs;
      of_params_[input.value] = input.role == InputRole::kParam;
    }
  }

  // Marks what is made of params alone, and what backward ops read.
  void Forwards() {
    std::vector<bool> forward(program_.values.size(), false);
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      bool all = !op.operands.empty();
      for (ValueId operand : op.operands) {
        all &= of_params_[operand];
        bool stashed = phases_[i] == StepPhase::kBackward &&
                       forward[buffer_of_[operand]] && At(operand) == kValues;
        if (stashed) At(operand) = kStash;
      }
      for (ValueId result : op.results) {
        bool own = buffer_of_[result] == result;
        of_params_[result] = all && phases_[i] != StepPhase::kUpdate;
        if (own && op.operands.empty()) At(result) = kInputs;
        if (own && of_params_[result]) At(result) = kParameters;
        if (own) forward[result] = phases_[i] == StepPhase::kForward;
        if (of_params_[result] && Is16Bit(program_.type(result).dtype)) {
          for (ValueId operand : op.operands) MarkMaster(operand);
        }
      }
    }
  }

  void MarkMaster(ValueId value) {
    Kind& kind = At(value);
    bool wide = program_.type(value).dtype == DType::kF32;
    if (kind == kParameters && wide) kind = kMaster;
  }

  // Marks what updates read of what backward ops write, also by way of sums
  // over tiles and devices.
  void Backwards() {
    std::vector<bool> gradient(program_.values.size(), false);
    for (size_t i = program_.ops.size(); i-- > 0;) {
      const Op& op = program_.ops[i];
      bool update = phases_[i] == StepPhase::kUpdate, passes_on = false;
      for (ValueId result : op.results) passes_on |= gradient[result];
      passes_on &= op.is_collective() || op.def->is_wait || op.def->is_view ||
                   op.def->name == "add" || op.def->name == "cast";
      if (!update && !passes_on) continue;
      for (ValueId operand : op.operands) gradient[operand] = true;
    }
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      if (phases_[i] != StepPhase::kBackward) continue;
      for (ValueId result : program_.ops[i].results) {
        if (gradient[result] && At(result) == kValues) At(result) = kGradients;
      }
    }
  }

  const Program& program_;
  const std::vector<StepPhase>& phases_;
  std::vector<ValueId> buffer_of_;
  std::vector<Kind> kind_;  // by buffer
  std::vector<bool> of_params_;
};

}  // namespace

std::vector<MemoryPart> StepMemory(const Program& program,
                                   const SimResult& result,
                                   const Machine& machine) {
  std::vector<StepPhase> phases = PhasesOf(program);
  if (phases.empty()) return {};
  MemoryReport report = ReportMemory(program, result, machine);
  std::vector<ValueId> sums = SummedInPlace(program);
  BufferMap buffers(program, sums);
  buffers.AddAll();
  Classifier classifier(program, phases, buffers.owners());
  std::array<int64_t, kNumKinds> bytes = {};
  for (const LiveBuffer& buffer :
       LiveBuffersAt(program, result.spans, report.peak_at_us)) {
    bytes[classifier.Of(buffer.value)] += buffer.bytes;
  }
  bytes[kPlacement] = report.arena_bytes - report.live_bytes;
  bytes[kWorkspace] = WorkspaceBytes(program, machine);
  bytes[kLibraries] = LibraryBytes(program, machine);
  std::vector<MemoryPart> parts;
  for (int kind = 0; kind < kNumKinds; ++kind) {
    if (bytes[kind] != 0) parts.push_back({kNames[kind], bytes[kind]});
  }
  return parts;
}

std::string StepMemoryText(const std::vector<MemoryPart>& parts) {
  if (parts.empty()) return "";
  int64_t all = 0;
  for (const MemoryPart& part : parts) all += part.bytes;
  BytesColumn unit(all);
  std::string text = " memory of a device at the peak\n";
  for (const MemoryPart& part : parts) {
    text += fmt::format("  {:<12} {:>12}\n", part.name, unit.Text(part.bytes));
  }
  return text + fmt::format("  {:<12} {:>12}\n", "in all", unit.Text(all));
}

nlohmann::json StepMemoryJson(const std::vector<MemoryPart>& parts) {
  nlohmann::json json = nlohmann::json::object();
  for (const MemoryPart& part : parts) json[part.name] = part.bytes;
  return json;
}

}  // namespace asyra
