// Machine files: embedded ones by name, others by path, and what lies beside
// them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace asyra {

constexpr std::string_view kMachineSuffix = ".machine";

// A machine file, which may hold only what differs from its base.
struct MachineFile {
  std::string text;       // complete, merged with its base
  std::string base;       // a name or path, as below; empty: none
  bool tables = false;    // names measurements of its own
  bool is_other = false;  // than its base: more differs than name and nodes
};

// The embedded file of this name, or the file at a path that ends in
// ".machine". Errors name the file: none of that name, no JSON, a base that is
// no machine or that rests on the file itself.
absl::StatusOr<MachineFile> ReadMachineFile(std::string_view name_or_path);

// The text of an embedded file, empty when there is none of that name.
std::string_view EmbeddedText(std::string_view file);

// Names of the embedded machines.
std::vector<std::string> ListMachines();

}  // namespace asyra
