// A regular expression (ECMAScript) that names are compared with whole.
#pragma once

#include <regex>
#include <string>

#include "absl/status/statusor.h"

namespace asyra {

class NamePattern {
 public:
  // Errors: `text` is no regular expression, with the reason.
  static absl::StatusOr<NamePattern> Parse(const std::string& text);
  bool Matches(const std::string& name) const {
    return std::regex_match(name, regex_);
  }

 private:
  std::regex regex_;
};

}  // namespace asyra
