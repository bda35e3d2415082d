#include "passes/train/parameter_choice.h"

#include <optional>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "ir/support/name_pattern.h"
#include "ir/support/status.h"
#include "ir/weight_origin.h"

namespace asyra {
namespace {

// Returns the alternatives of a regular expression: what '|' separates outside
// of groups and brackets.
std::vector<std::string> Alternatives(const std::string& pattern) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool bracket = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    if (c == '|' && depth == 0 && !bracket) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
    if (c == '\\' && i + 1 < pattern.size()) {
      parts.back() += pattern[++i];
    } else if (bracket) {
      bracket = c != ']';
    } else {
      bracket = c == '[';
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
  }
  return parts;
}

// One pattern of the choice.
class Chooser {
 public:
  static absl::StatusOr<Chooser> Create(const Program& program,
                                        std::string_view flag,
                                        const std::string& text) {
    Chooser chooser(program, flag, text);
    for (const std::string& part : Alternatives(text)) {
      ASYRA_ASSIGN_OR_RETURN(NamePattern pattern, NamePattern::Parse(part));
      chooser.parts_.push_back({part, std::move(pattern)});
    }
    return chooser;
  }

  // `differs`: the weight would be chosen otherwise without the pattern.
  bool Matches(const Input& input, bool differs) {
    bool any = false;
    for (Part& part : parts_) {
      bool matches = part.pattern.Matches(UserName(*program_, input)) ||
                     part.pattern.Matches(program_->value_name(input.value));
      if (input.origin != nullptr) {
        for (const WeightOrigin::Tied& tied : input.origin->tied) {
          matches |= part.pattern.Matches(tied.tensor);
        }
      }
      part.matched |= matches;
      part.changes |= matches && differs;
      any |= matches;
    }
    return any;
  }

  // To be called after the last weight. Notes name alternatives that change
  // nothing; `otherwise` says why those do that match.
  absl::Status Check(size_t weights, std::string_view otherwise,
                     std::vector<std::string>* notes) const {
    std::vector<std::string> unmatched;
    for (const Part& part : parts_) {
      if (!part.matched) unmatched.push_back(part.text);
    }
    if (unmatched.size() == parts_.size()) {
      return Invalid("{}: none of the {} float weights is called {}", flag_,
                     weights, text_);
    }
    for (const std::string& text : unmatched) {
      notes->push_back(fmt::format("{}: no weight is called {}", flag_, text));
    }
    for (const Part& part : parts_) {
      if (!part.matched || part.changes) continue;
      notes->push_back(fmt::format("{}: {} changes nothing: {}", flag_,
                                   part.text, otherwise));
    }
    return absl::OkStatus();
  }

 private:
  Chooser(const Program& program, std::string_view flag, std::string text)
      : program_(&program), flag_(flag), text_(std::move(text)) {}
  struct Part {
    std::string text;
    NamePattern pattern;
    bool matched = false, changes = false;
  };
  const Program* program_;
  std::string flag_, text_;
  std::vector<Part> parts_;
};

}  // namespace

absl::StatusOr<WeightRoles> Choose(const Program& program, WeightRoles roles,
                                   const ParameterChoice& choice,
                                   std::vector<std::string>* notes) {
  if (choice.train.empty() && choice.freeze.empty()) return roles;
  std::optional<Chooser> train, freeze;
  if (!choice.train.empty()) {
    ASYRA_ASSIGN_OR_RETURN(train,
                           Chooser::Create(program, "train", choice.train));
  }
  if (!choice.freeze.empty()) {
    ASYRA_ASSIGN_OR_RETURN(freeze,
                           Chooser::Create(program, "freeze", choice.freeze));
  }
  absl::flat_hash_map<ValueId, Parameter> parameters;
  absl::flat_hash_map<ValueId, std::string> reasons;
  for (const Parameter& one : roles.parameters) parameters[one.value] = one;
  for (auto& one : roles.untrained) reasons[one.value] = std::move(one.reason);
  WeightRoles chosen;
  size_t weights = 0;
  for (const Input& input : program.inputs) {
    auto parameter = parameters.find(input.value);
    auto reason = reasons.find(input.value);
    bool found = parameter != parameters.end();
    if (!found && reason == reasons.end()) continue;
    ++weights;
    bool trained = train.has_value() && train->Matches(input, !found);
    bool frozen = freeze.has_value() && freeze->Matches(input, found);
    const std::string& name = UserName(program, input);
    if (trained && frozen) {
      return Invalid("{}: both train ({}) and freeze ({}) match it", name,
                     choice.train, choice.freeze);
    }
    if (trained && !found && reason->second == kNoGradient) {
      return Invalid("train: {}: {}", name, kNoGradient);
    }
    if (trained && !found && input.origin != nullptr && input.origin->made) {
      return Invalid("train: {}: {}, which are computed before the step", name,
                     reason->second);
    }
    if (frozen) {
      chosen.untrained.push_back({input.value, "frozen"});
    } else if (found) {
      chosen.parameters.push_back(parameter->second);
    } else if (trained) {
      bool matrix = program.type(input.value).rank() >= 2;
      chosen.parameters.push_back(
          {input.value, matrix ? ParameterUse::kMatrix : ParameterUse::kBias});
    } else {
      chosen.untrained.push_back({input.value, std::move(reason->second)});
    }
  }
  if (train.has_value()) {
    ASYRA_RETURN_IF_ERROR(
        train->Check(weights, "what it matches is trained anyway", notes));
  }
  if (freeze.has_value()) {
    ASYRA_RETURN_IF_ERROR(
        freeze->Check(weights, "what it matches is not trained anyway", notes));
  }
  if (chosen.parameters.empty() && !roles.parameters.empty()) {
    return Invalid("freeze: {} matches all {} parameters, nothing is trained",
                   choice.freeze, roles.parameters.size());
  }
  return chosen;
}

}  // namespace asyra
