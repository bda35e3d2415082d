#include "frontends/onnx/role_override.h"

#include "ir/support/short_list.h"
#include "ir/support/status.h"

namespace asyra::onnx_import {

absl::StatusOr<RoleOverride> RoleOverride::Create(const std::string& data,
                                                  const std::string& weights,
                                                  bool says_flags) {
  RoleOverride roles;
  std::string dashes = says_flags ? "--" : "";
  ASYRA_ASSIGN_OR_RETURN(roles.data_, Read(dashes + "data", data));
  ASYRA_ASSIGN_OR_RETURN(roles.weights_, Read(dashes + "weights", weights));
  return roles;
}

absl::StatusOr<InputRole> RoleOverride::RoleOf(const std::string& name,
                                               InputRole otherwise) {
  names_.push_back(name);
  bool data = Matches(name, &data_), weight = Matches(name, &weights_);
  if (data && weight) {
    return Invalid("input {} matches both {} '{}' and {} '{}'", name,
                   data_.flag, data_.text, weights_.flag, weights_.text);
  }
  return data ? InputRole::kData : weight ? InputRole::kWeight : otherwise;
}

absl::Status RoleOverride::CheckMatched() const {
  for (const Pattern* pattern : {&data_, &weights_}) {
    if (!pattern->regex.has_value() || pattern->matched) continue;
    return Invalid("{} '{}' matches no input, there are {}", pattern->flag,
                   pattern->text, ShortList(names_));
  }
  return absl::OkStatus();
}

absl::StatusOr<RoleOverride::Pattern> RoleOverride::Read(
    const std::string& flag, const std::string& text) {
  Pattern pattern{.flag = flag, .text = text};
  if (text.empty()) return pattern;
  try {  // std::regex knows no other way to refuse
    pattern.regex = std::regex(text);
  } catch (const std::regex_error& error) {
    return Invalid("{} '{}' is no regular expression: {}", flag, text,
                   error.what());
  }
  return pattern;
}

bool RoleOverride::Matches(const std::string& name, Pattern* pattern) {
  if (!pattern->regex.has_value()) return false;
  bool matches = std::regex_match(name, *pattern->regex);
  pattern->matched |= matches;
  return matches;
}

}  // namespace asyra::onnx_import
