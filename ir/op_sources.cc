#include "ir/op_sources.h"

namespace asyra {

std::string_view SourceOf(const OpSources& sources, std::string_view value) {
  while (true) {
    auto found = sources.find(value);
    if (found != sources.end()) return found->second;
    size_t suffix = value.rfind('.');
    if (suffix == std::string_view::npos) return "";
    value = value.substr(0, suffix);
  }
}

}  // namespace asyra
