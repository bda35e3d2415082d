#include "ir/support/name_pattern.h"

#include "ir/support/status.h"

namespace asyra {

absl::StatusOr<NamePattern> NamePattern::Parse(const std::string& text) {
  NamePattern pattern;
  try {  // std::regex knows no other way to refuse
    pattern.regex_ = std::regex(text);
  } catch (const std::regex_error& error) {
    return Invalid("'{}' is no regular expression: {}", text, error.what());
  }
  return pattern;
}

}  // namespace asyra
