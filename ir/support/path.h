// Questions about paths that throw nothing. Those of std::filesystem throw for
// links in a circle, names that are too long and folders that nobody may read.
#pragma once

#include <filesystem>
#include <system_error>

namespace asyra {

// Returns false only where there is nothing: opening what cannot be asked about
// says why.
inline bool IsThere(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::status(path, ignored).type() !=
         std::filesystem::file_type::not_found;
}

inline bool IsFolder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

}  // namespace asyra
