#include "tools/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "fmt/format.h"
#include "ir/support/file.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

// Why it cannot be written; empty if it can, by all that is known before.
std::string ObstacleOf(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (path == "-") return "";
  if (fs::is_directory(path, ignored)) {
    return fmt::format("{}: cannot write: {}", path, std::strerror(EISDIR));
  }
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  // A device or a pipe is written where it is (ir/support/file.h).
  bool is_other =
      fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
  if (::access(is_other ? path.c_str() : folder.c_str(), W_OK) == 0) return "";
  return fmt::format("{}: cannot write: {}", path, std::strerror(errno));
}

// Why no files can be written into a folder; empty if they can.
std::string FolderObstacleOf(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  if (fs::exists(folder, ignored) && !fs::is_directory(folder, ignored)) {
    return fmt::format("{}: cannot write: {}", path, std::strerror(ENOTDIR));
  }
  // Files are written beside the folder first (tools/run/write_outputs.h).
  fs::path parent = folder.parent_path();
  if (parent.empty()) parent = ".";
  for (const fs::path& needed : {parent, folder}) {
    if (needed == folder && !fs::exists(folder, ignored)) continue;
    if (::access(needed.c_str(), W_OK) != 0) {
      return fmt::format("{}: cannot write: {}", needed.string(),
                         std::strerror(errno));
    }
  }
  return "";
}

}  // namespace

CLI::Validator OutputFile() {
  return {[](std::string& path) { return ObstacleOf(path); }, "", "output"};
}

CLI::Validator ReplacedFile() {
  auto obstacle = [](std::string& path) {
    absl::Status file = CheckNoStream(path);
    return file.ok() ? ObstacleOf(path) : std::string(MessageOf(file));
  };
  return {obstacle, "", "output"};
}

CLI::Validator OutputFolder() {
  return {[](std::string& path) { return FolderObstacleOf(path); }, "",
          "output"};
}

}  // namespace asyra
