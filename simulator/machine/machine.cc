#include "simulator/machine/machine.h"

#include "ir/support/status.h"
#include "simulator/machine/machine_edit.h"
#include "simulator/machine/machine_file.h"

namespace asyra {

absl::StatusOr<std::string> MachineText(std::string_view name_or_path) {
  ASYRA_ASSIGN_OR_RETURN(MachineFile file, ReadMachineFile(name_or_path));
  return std::move(file.text);
}

absl::StatusOr<std::vector<MachineNumber>> MachineNumbers(
    std::string_view name_or_path, absl::Span<const std::string> edits) {
  ASYRA_ASSIGN_OR_RETURN(std::string text, MachineText(name_or_path));
  ASYRA_RETURN_IF_ERROR(ParseMachine(text, name_or_path).status());
  ASYRA_ASSIGN_OR_RETURN(text, EditMachine(text, edits));
  return NumbersOf(text);
}

absl::Status CheckFits(const Mesh& mesh, const Machine& machine) {
  int64_t devices = int64_t{machine.nodes} * machine.gpus_per_host;
  if (machine.nodes == 0 || mesh.num_devices() <= devices) {
    return absl::OkStatus();
  }
  return Invalid("mesh {} has {} devices, {} nodes of {} have {}",
                 ToString(mesh), mesh.num_devices(), machine.nodes,
                 machine.name, devices);
}

}  // namespace asyra
