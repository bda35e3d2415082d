#include "simulator/cost/load_machine.h"

#include <algorithm>
#include <filesystem>

#include "ir/support/file.h"
#include "ir/support/status.h"
#include "simulator/machine/machine_edit.h"
#include "simulator/machine/machine_file.h"

namespace asyra {
namespace {

// A table and where it was found.
struct NamedTable {
  Measurements measurements;
  std::string path;
};

// The measurements that `file` holds, of a machine read from `name_or_path`.
absl::StatusOr<NamedTable> ReadTable(const std::string& file,
                                     std::string_view name_or_path) {
  std::string path = file, text(EmbeddedText(file));
  if (name_or_path.ends_with(kMachineSuffix)) {
    path = std::filesystem::path(name_or_path).replace_filename(file);
    ASYRA_ASSIGN_OR_RETURN(text, ReadFile(path));
  } else if (text.empty()) {
    return NotFound("{}: measurements: there is no {}", name_or_path, file);
  }
  ASYRA_ASSIGN_OR_RETURN(Measurements measurements,
                         ReadMeasurements(text, path));
  return NamedTable{std::move(measurements), path};
}

absl::StatusOr<std::shared_ptr<const CostTable>> LoadTable(
    const std::string& file, std::string_view name_or_path,
    const Machine& machine) {
  ASYRA_ASSIGN_OR_RETURN(NamedTable named, ReadTable(file, name_or_path));
  auto table = CostTable::Calibrate(named.measurements, machine);
  if (!table.ok()) return Annotate(table.status(), named.path);
  return table;
}

// Another number of hosts is the same machine.
bool ChangesTheMachine(const std::string& edit) {
  return !edit.starts_with("nodes=") && !edit.starts_with("nodes*=");
}

}  // namespace

absl::StatusOr<Measurements> LoadMeasurements(std::string_view machine) {
  ASYRA_RETURN_IF_ERROR(LoadMachine(machine).status());
  ASYRA_ASSIGN_OR_RETURN(MachineFile read, ReadMachineFile(machine));
  if (!read.base.empty() && !read.tables) return LoadMeasurements(read.base);
  std::string file;
  ASYRA_RETURN_IF_ERROR(ParseMachine(read.text, machine, &file).status());
  if (file.empty()) return NotFound("{} names no measurements", machine);
  ASYRA_ASSIGN_OR_RETURN(NamedTable named, ReadTable(file, machine));
  return std::move(named.measurements);
}

absl::StatusOr<Machine> LoadMachine(std::string_view name_or_path,
                                    absl::Span<const std::string> edits) {
  ASYRA_ASSIGN_OR_RETURN(MachineFile file, ReadMachineFile(name_or_path));
  std::string text = std::move(file.text), table_file;
  ASYRA_ASSIGN_OR_RETURN(Machine machine,
                         ParseMachine(text, name_or_path, &table_file));
  // Calibrated on the machine as it was measured: its base, where the file has
  // no measurements of its own.
  std::shared_ptr<const CostTable> table;
  bool edited = std::any_of(edits.begin(), edits.end(), ChangesTheMachine);
  if (!file.base.empty() && !file.tables) {
    ASYRA_ASSIGN_OR_RETURN(Machine base, LoadMachine(file.base));
    table = std::move(base.table);
    edited |= base.edited || file.is_other;
  } else if (!table_file.empty()) {
    ASYRA_ASSIGN_OR_RETURN(table, LoadTable(table_file, name_or_path, machine));
  }
  if (!edits.empty()) {
    ASYRA_ASSIGN_OR_RETURN(text, EditMachine(text, edits));
    ASYRA_ASSIGN_OR_RETURN(
        machine, ParseMachine(text, fmt::format("{} with {}", name_or_path,
                                                fmt::join(edits, ", "))));
  }
  machine.table = std::move(table);
  machine.edited = edited;
  return machine;
}

}  // namespace asyra
