#include "simulator/machine_edit.h"

#include <cmath>
#include <nlohmann/json.hpp>

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

// Whole numbers stay whole where they can, as counts must.
void Scale(Json* number, double factor) {
  double value = number->get<double>() * factor;
  if (number->is_number_integer()) {
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
    Scale(field, edit.value.get<double>());
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

}  // namespace

absl::StatusOr<std::string> EditMachine(std::string_view text,
                                        absl::Span<const std::string> edits) {
  Json file = Json::parse(text.begin(), text.end(), nullptr,
                          /*allow_exceptions=*/false);
  for (const std::string& line : edits) {
    ASYRA_ASSIGN_OR_RETURN(Edit edit, ParseEdit(line));
    ASYRA_RETURN_IF_ERROR(Apply(edit, &file));
  }
  return file.dump();
}

std::vector<MachineNumber> NumbersOf(std::string_view text) {
  std::vector<MachineNumber> numbers;
  Collect(Json::parse(text.begin(), text.end(), nullptr,
                      /*allow_exceptions=*/false),
          "", &numbers);
  return numbers;
}

}  // namespace asyra
