// Fields of a config.json, by name, with the defaults of its family.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace asyra {

// A field that is null counts as absent. Readers ask for all fields, after an
// error too, and then for status().
class ConfigFields {
 public:
  using Json = nlohmann::json;

  // `object` is kept; `path` ("text_config.") stands before names in errors.
  explicit ConfigFields(const Json& object, std::string path = "")
      : object_(object), path_(std::move(path)) {}

  const Json* Find(std::string_view name) const;
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  // Has it, or says that it is null.
  bool Says(std::string_view name) const { return object_.contains(name); }

  // An integer from `least` on. Without a default it has to be there.
  int64_t Count(std::string_view name,
                std::optional<int64_t> fallback = std::nullopt,
                int64_t least = 1);
  // A number above 0.
  double Number(std::string_view name,
                std::optional<double> fallback = std::nullopt);
  bool Bool(std::string_view name, bool fallback);
  std::string Text(std::string_view name, std::string_view fallback);
  std::vector<double> Numbers(std::string_view name, size_t count);
  std::vector<std::string> Texts(std::string_view name);
  std::vector<int64_t> Integers(std::string_view name);

  // Errors: "hidden_size: is missing"; "hidden_size: is 0, it should be an
  // integer from 1 on". The first counts.
  void Refuse(std::string_view name, std::string_view why);
  // The same with an error of a part of the file.
  void Take(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }
  const absl::Status& status() const { return status_; }

 private:
  // Items of a list, all of which `is` takes.
  template <typename Item>
  std::vector<Item> List(std::string_view name,
                         bool (Json::*is)() const noexcept,
                         std::string_view should_be);
  void RefuseValue(std::string_view name, const Json& value,
                   std::string_view should_be);

  const Json& object_;
  std::string path_;
  absl::Status status_;
};

}  // namespace asyra
