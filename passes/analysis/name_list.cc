#include "passes/analysis/name_list.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace asyra {

std::vector<std::string> NamesIn(const std::string& text) {
  std::vector<std::string> names =
      absl::StrSplit(text, ';', absl::SkipWhitespace());
  for (std::string& name : names) absl::StripAsciiWhitespace(&name);
  return names;
}

std::string TextOfNames(absl::Span<const std::string> names) {
  return absl::StrJoin(names, "; ");
}

}  // namespace asyra
