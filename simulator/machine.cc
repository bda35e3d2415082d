#include "simulator/machine.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ir/support/file.h"
#include "ir/support/status.h"
#include "simulator/cost_table.h"
#include "simulator/embedded_machines.h"
#include "simulator/json_fields.h"
#include "simulator/machine_edit.h"

namespace asyra {
namespace {

constexpr std::string_view kSuffix = ".machine";

// The text of an embedded file, empty when there is none of that name.
std::string_view Embedded(std::string_view file) {
  for (const EmbeddedFile& embedded : EmbeddedFiles()) {
    if (embedded.name == file) return embedded.text;
  }
  return "";
}

// The text of a file as it is written.
absl::StatusOr<std::string> RawText(std::string_view name_or_path) {
  if (name_or_path.ends_with(kSuffix)) {
    return ReadFile(std::string(name_or_path));
  }
  std::string_view text = Embedded(fmt::format("{}{}", name_or_path, kSuffix));
  if (!text.empty()) return std::string(text);
  return NotFound(
      "machine {} is not known; there are {}, or give the path of "
      "a .machine file",
      name_or_path, fmt::join(ListMachines(), ", "));
}

// A machine file, which may hold only what differs from its base.
struct MachineFile {
  std::string text;       // complete, merged with its base
  std::string base;       // as LoadMachine takes it; empty: none
  bool tables = false;    // names measurements of its own
  bool is_other = false;  // than its base: more differs than name and nodes
};

// A path that a file names is relative to it.
std::string Beside(std::string_view file, const std::string& named) {
  if (!named.ends_with(kSuffix)) return named;
  return (std::filesystem::path(file).parent_path() / named)
      .lexically_normal()
      .string();
}

// `opened` are the files that this one is the base of.
absl::StatusOr<MachineFile> ReadMachineFile(
    std::string_view name_or_path, std::vector<std::string> opened = {}) {
  using Json = nlohmann::ordered_json;
  std::string origin(name_or_path);
  bool is_open =
      std::find(opened.begin(), opened.end(), origin) != opened.end();
  opened.push_back(origin);
  if (is_open) {
    return Invalid("a machine is its own base: {}", fmt::join(opened, ", "));
  }
  MachineFile file;
  ASYRA_ASSIGN_OR_RETURN(file.text, RawText(name_or_path));
  ASYRA_RETURN_IF_ERROR(CheckJson(file.text, origin));
  Json own = Json::parse(file.text);
  if (!own.is_object() || !own.contains("base")) return file;
  if (!own["base"].is_string()) {
    return Invalid("{}: base: should be the name or path of a machine", origin);
  }
  file.base = Beside(origin, own["base"].get<std::string>());
  absl::StatusOr<MachineFile> base = ReadMachineFile(file.base, opened);
  if (!base.ok()) return Annotate(base.status(), origin + ": base");
  own.erase("base");
  if (!own.contains("name")) {
    own["name"] = std::filesystem::path(origin).stem().string();
  }
  file.tables = own.contains("measurements");
  for (const auto& [key, value] : own.items()) {
    file.is_other |= key != "name" && key != "nodes" && key != "sources";
  }
  Json whole = Json::parse(base->text);
  if (!whole.is_object()) return Invalid("{}: should be an object", file.base);
  whole.merge_patch(own);
  file.text = whole.dump(1);
  return file;
}

// A table and where it was found.
struct NamedTable {
  Measurements measurements;
  std::string path;
};

// The measurements that `file` holds, of a machine read from `name_or_path`.
absl::StatusOr<NamedTable> ReadTable(const std::string& file,
                                     std::string_view name_or_path) {
  std::string path = file, text(Embedded(file));
  if (name_or_path.ends_with(kSuffix)) {
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

absl::StatusOr<std::string> MachineText(std::string_view name_or_path) {
  ASYRA_ASSIGN_OR_RETURN(MachineFile file, ReadMachineFile(name_or_path));
  return std::move(file.text);
}

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

std::vector<std::string> ListMachines() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (!file.name.ends_with(kSuffix)) continue;
    names.emplace_back(file.name.substr(0, file.name.size() - kSuffix.size()));
  }
  return names;
}

}  // namespace asyra
