#include "simulator/machine.h"

#include <fstream>
#include <sstream>

#include "ir/support/status.h"
#include "simulator/embedded_machines.h"
#include "simulator/machine_edit.h"

namespace asyra {
namespace {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return NotFound("{}: cannot be opened", path);
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad()) return Invalid("{}: cannot be read", path);
  return text.str();
}

absl::StatusOr<std::string> TextOf(std::string_view name_or_path) {
  constexpr std::string_view kSuffix = ".machine";
  if (name_or_path.ends_with(kSuffix)) {
    return ReadFile(std::string(name_or_path));
  }
  for (const EmbeddedMachine& machine : EmbeddedMachines()) {
    if (machine.name == name_or_path) return std::string(machine.text);
  }
  return NotFound(
      "machine {} is not known; there are {}, or give the path of "
      "a .machine file",
      name_or_path, fmt::join(ListMachines(), ", "));
}

}  // namespace

absl::StatusOr<Machine> LoadMachine(std::string_view name_or_path,
                                    absl::Span<const std::string> edits) {
  ASYRA_ASSIGN_OR_RETURN(std::string text, TextOf(name_or_path));
  if (edits.empty()) return ParseMachine(text, name_or_path);
  // What is wrong with the file itself is said before any edit.
  ASYRA_RETURN_IF_ERROR(ParseMachine(text, name_or_path).status());
  ASYRA_ASSIGN_OR_RETURN(text, EditMachine(text, edits));
  return ParseMachine(
      text, fmt::format("{} with {}", name_or_path, fmt::join(edits, ", ")));
}

absl::StatusOr<std::vector<MachineNumber>> MachineNumbers(
    std::string_view name_or_path) {
  ASYRA_ASSIGN_OR_RETURN(std::string text, TextOf(name_or_path));
  ASYRA_RETURN_IF_ERROR(ParseMachine(text, name_or_path).status());
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

std::vector<std::string> ListMachines() {
  std::vector<std::string> names;
  for (const EmbeddedMachine& machine : EmbeddedMachines()) {
    names.emplace_back(machine.name);
  }
  return names;
}

}  // namespace asyra
