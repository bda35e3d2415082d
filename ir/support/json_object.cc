#include "ir/support/json_object.h"

#include <set>
#include <string>
#include <vector>

#include "fmt/ranges.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using nlohmann::json;

// Finds the first name that an object has twice.
class NameWatch {
 public:
  bool operator()(json::parse_event_t event, const json& value) {
    switch (event) {
      case json::parse_event_t::object_start:
        open_.emplace_back();
        break;
      case json::parse_event_t::object_end:
        open_.pop_back();
        break;
      case json::parse_event_t::key:
        Add(value.get_ref<const std::string&>());
        break;
      default:
        break;
    }
    return true;
  }

  // `"w" / "dtype"`; empty: there is none.
  const std::string& repeated() const { return repeated_; }

 private:
  struct Object {
    std::set<std::string> names;
    std::string last;
  };

  void Add(const std::string& name) {
    open_.back().last = name;
    if (open_.back().names.insert(name).second || !repeated_.empty()) return;
    std::vector<std::string> path;
    for (const Object& object : open_) path.push_back(object.last);
    repeated_ = fmt::format("\"{}\"", fmt::join(path, "\" / \""));
  }

  std::vector<Object> open_;
  std::string repeated_;
};

}  // namespace

absl::StatusOr<json> ParseJsonObject(std::string_view text) {
  NameWatch watch;
  json value = json::parse(
      text,
      [&](int /*depth*/, json::parse_event_t event, json& parsed) {
        return watch(event, parsed);
      },
      /*allow_exceptions=*/false);
  if (!value.is_object()) return Invalid("it is no JSON object");
  if (watch.repeated().empty()) return value;
  return Invalid("{} is named twice", watch.repeated());
}

}  // namespace asyra
