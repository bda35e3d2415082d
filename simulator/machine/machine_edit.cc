#include "simulator/machine/machine_edit.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using Json = nlohmann::ordered_json;

struct Edit {
  std::string key;
  Json value;
  bool is_factor = false;
};

absl::StatusOr<Edit> ParseEdit(const std::string& text) {
  size_t at = text.find('=');
  if (at == std::string::npos || at == 0) {
    return Invalid("{}: should be KEY=VALUE or KEY*=FACTOR", text);
  }
  Edit edit;
  edit.is_factor = text[at - 1] == '*';
  edit.key = text.substr(0, edit.is_factor ? at - 1 : at);
  std::string value = text.substr(at + 1);
  double number;
  int64_t whole;
  if (absl::SimpleAtoi(value, &whole)) {
    edit.value = whole;
  } else if (absl::SimpleAtod(value, &number) && std::isfinite(number)) {
    edit.value = number;
  } else if (!edit.is_factor && (value == "true" || value == "false")) {
    edit.value = value == "true";
  } else {
    return Invalid("{}: {} is not a number", text, value);
  }
  return edit;
}

bool IsPair(const Json& json) {
  return json.is_object() && json.size() == 2 && json.contains("peak") &&
         json.contains("achievable");
}

// Returns whether a field is one that ParseMachine takes whole numbers for
// only.
bool IsCount(std::string_view key) {
  constexpr std::string_view kCounts[] = {
      "copy_engines", "ctas", "gpus", "hbm_sms", "nics", "nodes", "sms"};
  std::string_view last = key.substr(key.rfind('.') + 1);
  return std::find(std::begin(kCounts), std::end(kCounts), last) !=
         std::end(kCounts);
}

void Scale(std::string_view key, double factor, Json* number) {
  double value = number->get<double>() * factor;
  if (IsCount(key)) {
    *number = static_cast<int64_t>(std::llround(value));
  } else {
    *number = value;
  }
}

void ScaleRate(Json* rate, double factor) {
  for (const char* key : {"peak", "achievable"}) {
    (*rate)[key] = (*rate)[key].get<double>() * factor;
  }
}

// Numbers that belong together, and the name under which one factor is for all
// of them.
struct NumberGroup {
  std::string_view name;
  std::string_view link;  // only of hosts with this `host.link`; empty: of all
  std::vector<std::string_view> keys;
};

const std::vector<NumberGroup>& NumberGroups() {
  static const std::vector<std::string_view> link_rates = {
      "host.link_gbps", "host.ll_gbps", "host.copy_gbps", "host.cta_gbps"};
  static const auto* groups = new std::vector<NumberGroup>{
      {"nvlink", "nvlink", link_rates},
      {"pcie", "pcie", link_rates},
      // Carries all matrix rates, which have to agree with it.
      {"matrix", "", {"gpu.bf16_flops_per_sm_clock"}},
      {"launch", "", {"launch_us", "graph_launch_us"}}};
  return *groups;
}

// Returns whether a machine of this file has the group.
bool Has(const Json& file, const NumberGroup& group) {
  return group.link.empty() || file["host"]["link"] == group.link;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// The field named by `key`, null and new where the file has none yet.
absl::StatusOr<Json*> Find(Json* file, std::string_view key) {
  Json* at = file;
  std::string_view rest = key;
  while (true) {
    size_t dot = rest.find('.');
    std::string name(rest.substr(0, dot));
    if (!at->is_object() || (dot != rest.npos && !at->contains(name))) {
      return Invalid("{}: there is no such field", key);
    }
    at = &(*at)[name];
    if (dot == rest.npos) return at;
    rest.remove_prefix(dot + 1);
  }
}

// Rates of arithmetic follow the numbers that they are products of.
void CarryRates(const std::string& key, double factor, Json* file) {
  bool all = key == "gpu.sms" || key == "gpu.clock_mhz";
  if (!all && key != "gpu.bf16_flops_per_sm_clock") return;
  Json& gpu = (*file)["gpu"];
  for (auto& [dtype, rate] : gpu["matrix_tflops"].items()) {
    ScaleRate(&rate, factor);
  }
  if (all) ScaleRate(&gpu["vector_tflops"], factor);
}

absl::Status Apply(const Edit& edit, Json* file) {
  ASYRA_ASSIGN_OR_RETURN(Json * field, Find(file, edit.key));
  double before = IsPair(*field)       ? (*field)["peak"].get<double>()
                  : field->is_number() ? field->get<double>()
                                       : 0;
  if (field->is_object() && !IsPair(*field)) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : field->items()) keys.push_back(key);
    return Invalid("{}: is a group of fields: {}", edit.key,
                   fmt::join(keys, ", "));
  }
  if (edit.is_factor && before == 0) {
    return Invalid("{}: has no number to multiply", edit.key);
  }
  if (IsPair(*field)) {
    if (!edit.value.is_number()) {
      return Invalid("{}: should be a number", edit.key);
    }
    double value = edit.value.get<double>();
    ScaleRate(field, edit.is_factor ? value : value / before);
  } else if (edit.is_factor) {
    Scale(edit.key, edit.value.get<double>(), field);
  } else {
    *field = edit.value;
  }
  if (before != 0 && field->is_number()) {
    CarryRates(edit.key, field->get<double>() / before, file);
  }
  return absl::OkStatus();
}

void Collect(const Json& json, const std::string& path,
             std::vector<MachineNumber>* numbers) {
  if (json.is_number()) {
    numbers->push_back({path, json.get<double>()});
  } else if (IsPair(json)) {
    numbers->push_back({path, json["peak"].get<double>()});
  } else if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      if (path.empty() && key == "schema") continue;
      Collect(value, path.empty() ? key : path + "." + key, numbers);
    }
  }
}

absl::Status NoSuchKey(const std::string& key, const Json& file) {
  std::vector<MachineNumber> numbers;
  Collect(file, "", &numbers);
  std::vector<std::pair<size_t, std::string>> near;
  auto add = [&](std::string_view known) {
    // With the path or without it.
    std::string_view last = known.substr(known.rfind('.') + 1);
    near.emplace_back(
        std::min(EditDistance(key, known), EditDistance(key, last)), known);
  };
  for (const MachineNumber& number : numbers) add(number.key);
  for (const NumberGroup& group : NumberGroups()) {
    if (Has(file, group)) add(group.name);
  }
  std::sort(near.begin(), near.end());
  constexpr size_t kNear = 3;
  near.resize(std::min(near.size(), kNear));
  std::vector<std::string> names;
  for (auto& [distance, name] : near) names.push_back(std::move(name));
  return Invalid("{}: there is no such number; the nearest are {}", key,
                 fmt::join(names, ", "));
}

// Applies the factor to each number of the group that the machine has.
absl::Status ApplyGroup(const Edit& edit, const NumberGroup& group,
                        Json* file) {
  if (!edit.is_factor) {
    return Invalid("{}: is a group of numbers, give a factor: {}*=2", edit.key,
                   edit.key);
  }
  if (!Has(*file, group)) {
    return Invalid("{}: the link of this machine is {}", edit.key,
                   (*file)["host"]["link"].get<std::string>());
  }
  std::vector<MachineNumber> numbers;
  Collect(*file, "", &numbers);
  for (std::string_view key : group.keys) {
    bool known = std::any_of(numbers.begin(), numbers.end(),
                             [&](const MachineNumber& number) {
                               return number.key == key && number.value != 0;
                             });
    if (!known) continue;
    ASYRA_RETURN_IF_ERROR(
        Apply({std::string(key), edit.value, /*is_factor=*/true}, file));
  }
  return absl::OkStatus();
}

// Applies a key that names a scalar, or a group of them.
absl::Status ApplyAny(const Edit& edit, Json* file) {
  for (const NumberGroup& group : NumberGroups()) {
    if (group.name == edit.key) return ApplyGroup(edit, group, file);
  }
  absl::StatusOr<Json*> field = Find(file, edit.key);
  // A value may be for a key that the file lacks.
  if (!field.ok() || (edit.is_factor && (*field)->is_null())) {
    return NoSuchKey(edit.key, *file);
  }
  return Apply(edit, file);
}

}  // namespace

absl::StatusOr<std::string> EditMachine(std::string_view text,
                                        absl::Span<const std::string> edits) {
  Json file = Json::parse(text.begin(), text.end(), nullptr,
                          /*allow_exceptions=*/false);
  for (const std::string& line : edits) {
    ASYRA_ASSIGN_OR_RETURN(Edit edit, ParseEdit(line));
    ASYRA_RETURN_IF_ERROR(ApplyAny(edit, &file));
  }
  return file.dump();
}

std::vector<std::string> GroupsOf(std::string_view text) {
  Json file = Json::parse(text.begin(), text.end(), nullptr,
                          /*allow_exceptions=*/false);
  std::vector<std::string> names;
  for (const NumberGroup& group : NumberGroups()) {
    if (Has(file, group)) names.emplace_back(group.name);
  }
  return names;
}

std::vector<MachineNumber> NumbersOf(std::string_view text) {
  std::vector<MachineNumber> numbers;
  Collect(Json::parse(text.begin(), text.end(), nullptr,
                      /*allow_exceptions=*/false),
          "", &numbers);
  return numbers;
}

}  // namespace asyra
