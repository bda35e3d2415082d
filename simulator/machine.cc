#include "simulator/machine.h"

#include <fstream>
#include <sstream>

#include "ir/support/status.h"
#include "simulator/embedded_machines.h"

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

}  // namespace

absl::StatusOr<Machine> LoadMachine(std::string_view name_or_path) {
  constexpr std::string_view kSuffix = ".machine";
  if (name_or_path.ends_with(kSuffix)) {
    ASYRA_ASSIGN_OR_RETURN(std::string text,
                           ReadFile(std::string(name_or_path)));
    return ParseMachine(text, name_or_path);
  }
  for (const EmbeddedMachine& machine : EmbeddedMachines()) {
    if (machine.name == name_or_path) {
      return ParseMachine(machine.text, machine.name);
    }
  }
  return NotFound(
      "machine {} is not known; there are {}, or give the path of "
      "a .machine file",
      name_or_path, fmt::join(ListMachines(), ", "));
}

std::vector<std::string> ListMachines() {
  std::vector<std::string> names;
  for (const EmbeddedMachine& machine : EmbeddedMachines()) {
    names.emplace_back(machine.name);
  }
  return names;
}

}  // namespace asyra
