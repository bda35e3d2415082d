// Roles of inputs as the user fixes them, by patterns of their names.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra::onnx_import {

class RoleOverride {
 public:
  // Patterns and `says_flags` as in ImportOptions. Error: an invalid regular
  // expression.
  static absl::StatusOr<RoleOverride> Create(const std::string& data,
                                             const std::string& weights,
                                             bool says_flags);

  // The role of the input of that name, `otherwise` if no pattern matches.
  // Error: both do.
  absl::StatusOr<InputRole> RoleOf(const std::string& name,
                                   InputRole otherwise);
  // To be called after the last input. Error: a pattern that matched no input;
  // it names some of the inputs.
  absl::Status CheckMatched() const;

 private:
  struct Pattern {
    std::string flag;
    std::string text;
    std::optional<std::regex> regex;  // none: not given
    bool matched = false;
  };
  static absl::StatusOr<Pattern> Read(const std::string& flag,
                                      const std::string& text);
  static bool Matches(const std::string& name, Pattern* pattern);

  Pattern data_, weights_;
  std::vector<std::string> names_;  // of the inputs so far
};

}  // namespace asyra::onnx_import
