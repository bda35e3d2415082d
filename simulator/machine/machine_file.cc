#include "simulator/machine/machine_file.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ir/support/file.h"
#include "ir/support/status.h"
#include "simulator/machine/embedded_machines.h"
#include "simulator/machine/json_fields.h"

namespace asyra {
namespace {

// The text of a file as it is written.
absl::StatusOr<std::string> RawText(std::string_view name_or_path) {
  if (name_or_path.ends_with(kMachineSuffix)) {
    return ReadFile(std::string(name_or_path));
  }
  std::string_view text =
      EmbeddedText(fmt::format("{}{}", name_or_path, kMachineSuffix));
  if (!text.empty()) return std::string(text);
  return NotFound(
      "machine {} is not known; there are {}, or give the path of "
      "a .machine file",
      name_or_path, fmt::join(ListMachines(), ", "));
}

// A path that a file names is relative to it.
std::string Beside(std::string_view file, const std::string& named) {
  if (!named.ends_with(kMachineSuffix)) return named;
  return (std::filesystem::path(file).parent_path() / named)
      .lexically_normal()
      .string();
}

// `opened` are the files that this one is the base of.
absl::StatusOr<MachineFile> ReadOver(std::string_view name_or_path,
                                     std::vector<std::string> opened) {
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
  absl::StatusOr<MachineFile> base = ReadOver(file.base, opened);
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

}  // namespace

absl::StatusOr<MachineFile> ReadMachineFile(std::string_view name_or_path) {
  return ReadOver(name_or_path, {});
}

std::string_view EmbeddedText(std::string_view file) {
  for (const EmbeddedFile& embedded : EmbeddedFiles()) {
    if (embedded.name == file) return embedded.text;
  }
  return "";
}

std::vector<std::string> ListMachines() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (!file.name.ends_with(kMachineSuffix)) continue;
    names.emplace_back(
        file.name.substr(0, file.name.size() - kMachineSuffix.size()));
  }
  return names;
}

}  // namespace asyra
