#include "simulator/machine/json_fields.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace asyra {
namespace {

using Json = JsonFields::Json;

// Accepts anything; remembers the position of a syntax error.
class ErrorFinder : public Json::json_sax_t {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(Json::number_integer_t) override { return true; }
  bool number_unsigned(Json::number_unsigned_t) override { return true; }
  bool number_float(Json::number_float_t, const std::string&) override {
    return true;
  }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    position_ = position;
    return false;
  }
  // In bytes, behind what cannot be.
  size_t position() const { return position_; }

 private:
  size_t position_ = 0;
};

}  // namespace

absl::Status CheckJson(std::string_view text, std::string_view origin) {
  ErrorFinder finder;
  if (Json::sax_parse(text.begin(), text.end(), &finder)) {
    return absl::OkStatus();
  }
  size_t before = finder.position() == 0 ? 0 : finder.position() - 1;
  auto end = text.begin() + std::min(before, text.size());
  return Invalid("{}: line {} is no JSON", origin,
                 1 + std::count(text.begin(), end, '\n'));
}

absl::Status JsonErrors::status() const {
  if (missing.empty() || !other.ok()) return other;
  return Invalid("{}: {} missing", absl::StrJoin(missing, ", "),
                 missing.size() == 1 ? "is" : "are");
}

JsonFields::JsonFields(const Json& json, std::string path, JsonErrors* errors)
    : json_(json), path_(std::move(path)), errors_(errors) {
  if (!json.is_object()) Fail(path_, "should be an object");
}

double JsonFields::Number(const char* key, Range range) {
  const Json* value = Find(key);
  if (value == nullptr) return 0;
  if (!value->is_number()) {
    Fail(Path(key), "should be a number");
    return 0;
  }
  return CheckRange(key, value->get<double>(), range);
}

int JsonFields::Count(const char* key, int low, int high) {
  const Json* value = Find(key);
  if (value == nullptr) return 0;
  if (!value->is_number_integer()) {
    Fail(Path(key), "should be a whole number");
    return 0;
  }
  return static_cast<int>(
      CheckRange(key, value->get<double>(), {double(low), double(high)}));
}

bool JsonFields::Bool(const char* key) {
  const Json* value = Find(key);
  if (value == nullptr) return false;
  if (!value->is_boolean()) Fail(Path(key), "should be true or false");
  return value->is_boolean() && value->get<bool>();
}

std::string JsonFields::Text(const char* key) {
  const Json* value = Find(key);
  if (value == nullptr) return "";
  if (!value->is_string()) Fail(Path(key), "should be a string");
  return value->is_string() ? value->get<std::string>() : "";
}

std::vector<std::string> JsonFields::Keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json_.items()) keys.push_back(key);
  return keys;
}

std::string JsonFields::Path(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void JsonFields::Fail(std::string_view path, std::string_view what) {
  if (ok()) errors_->other = Invalid("{}: {}", path, what);
}

void JsonFields::Missing(std::string_view key) {
  missing_.push_back(Path(key));
  errors_->missing.push_back(missing_.back());
}

void JsonFields::Finish() {
  if (!errors_->other.ok() || (!ok() && missing_.empty())) return;
  for (const auto& [key, value] : json_.items()) {
    if (seen_.contains(key)) continue;
    // It may be one that is missing, in another spelling.
    std::string also =
        missing_.empty()
            ? ""
            : fmt::format(", and {} {} missing", absl::StrJoin(missing_, ", "),
                          missing_.size() == 1 ? "is" : "are");
    errors_->other = Invalid("{}: is not a known key{}", Path(key), also);
    return;
  }
}

const JsonFields::Json* JsonFields::Find(const char* key) {
  seen_.insert(key);
  if (!errors_->other.ok()) return nullptr;
  auto at = json_.find(key);
  if (at != json_.end()) return &*at;
  Missing(key);
  return nullptr;
}

double JsonFields::CheckRange(const char* key, double value, Range range) {
  if (value >= range.low && value <= range.high) return value;
  Fail(Path(key), fmt::format("is {}, it should lie in [{}, {}]", value,
                              range.low, range.high));
  return 0;
}

}  // namespace asyra
