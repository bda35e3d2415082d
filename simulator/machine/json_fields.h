// Reads JSON objects against a schema: every key known and present, every
// number in its range.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "ir/support/status.h"

namespace asyra {

// OK, or "`origin`: line 12 is no JSON".
absl::Status CheckJson(std::string_view text, std::string_view origin);

struct Range {
  double low;   // inclusive
  double high;  // inclusive
};
inline constexpr Range kPositive = {1e-9, 1e12};
inline constexpr Range kNotNegative = {0, 1e12};
inline constexpr Range kFraction = {1e-3, 1};

// The errors of a file: all keys that are missing, or the first other error.
struct JsonErrors {
  std::vector<std::string> missing;  // paths of keys
  absl::Status other;                // the first

  bool ok() const { return missing.empty() && other.ok(); }
  // "gpu.sms: is 0, it should lie in [1, 1024]", "gpu.sms: is missing",
  // "gpu.sms, host.p2p: are missing".
  absl::Status status() const;
};

// The fields of one JSON object. A reader is a plain list of fields that ends
// with Finish, which refuses keys that were not read, and says which are
// missing in their object. Readers ask for all keys, after an error too; then
// numbers are 0, texts empty and objects default.
class JsonFields {
 public:
  using Json = nlohmann::json;

  // `path` is that of the object in its file; json and errors are kept.
  JsonFields(const Json& json, std::string path, JsonErrors* errors);

  double Number(const char* key, Range range);
  int Count(const char* key, int low, int high);
  bool Bool(const char* key);
  std::string Text(const char* key);
  bool Has(const char* key) const { return json_.contains(key); }
  std::vector<std::string> Keys() const;

  // The result of `read(JsonFields&)` for the object under `key`.
  template <typename Read>
  auto Object(const char* key, Read read) {
    using Result = decltype(read(std::declval<JsonFields&>()));
    const Json* value = Find(key);
    if (value == nullptr) return Result();
    JsonFields fields(*value, Path(key), errors_);
    if (!errors_->other.ok()) return Result();
    Result result = read(fields);
    fields.Finish();
    return result;
  }

  // Calls `read` with each object of the list under `key`, which is not empty.
  template <typename Read>
  void EachOf(const char* key, Read read) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_array() || value->empty()) {
      Fail(Path(key), "should be a list that is not empty");
      return;
    }
    for (size_t i = 0; i < value->size() && ok(); ++i) {
      JsonFields fields((*value)[i], fmt::format("{}[{}]", Path(key), i),
                        errors_);
      if (!ok()) return;
      read(fields);
      fields.Finish();
    }
  }

  std::string Path(std::string_view key) const;
  bool ok() const { return errors_->ok(); }
  // Without effect after another error.
  void Fail(std::string_view path, std::string_view what);
  void Missing(std::string_view key);
  void Finish();

 private:
  const Json* Find(const char* key);
  double CheckRange(const char* key, double value, Range range);

  const Json& json_;
  std::string path_;
  JsonErrors* errors_;
  std::set<std::string> seen_;
  std::vector<std::string> missing_;  // of this object, as paths
};

}  // namespace asyra
