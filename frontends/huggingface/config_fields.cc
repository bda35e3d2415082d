#include "frontends/huggingface/config_fields.h"

#include <algorithm>
#include <utility>

#include "ir/support/status.h"

namespace asyra {

const nlohmann::json* ConfigFields::Find(std::string_view name) const {
  auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void ConfigFields::Refuse(std::string_view name, std::string_view why) {
  if (status_.ok()) status_ = Invalid("{}{}: {}", path_, name, why);
}

void ConfigFields::RefuseValue(std::string_view name, const Json& value,
                               std::string_view should_be) {
  constexpr size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  Refuse(name, fmt::format("is {}, it should be {}", text, should_be));
}

int64_t ConfigFields::Count(std::string_view name,
                            std::optional<int64_t> fallback, int64_t least) {
  // Sizes of tensors are products of a few of them.
  constexpr int64_t kMost = int64_t{1} << 31;
  const Json* value = Find(name);
  if (value == nullptr) {
    if (!fallback.has_value()) Refuse(name, "is missing");
    return fallback.value_or(1);
  }
  bool fits = value->is_number_integer() &&
              value->get<double>() >= static_cast<double>(least) &&
              value->get<double>() <= static_cast<double>(kMost);
  if (fits) return value->get<int64_t>();
  RefuseValue(name, *value, fmt::format("an integer from {} to 2^31", least));
  return std::max<int64_t>(least, 1);
}

double ConfigFields::Number(std::string_view name,
                            std::optional<double> fallback) {
  const Json* value = Find(name);
  if (value == nullptr) {
    if (!fallback.has_value()) Refuse(name, "is missing");
    return fallback.value_or(1);
  }
  if (value->is_number() && value->get<double>() > 0) {
    return value->get<double>();
  }
  RefuseValue(name, *value, "a number above 0");
  return 1;
}

bool ConfigFields::Bool(std::string_view name, bool fallback) {
  const Json* value = Find(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  RefuseValue(name, *value, "true or false");
  return fallback;
}

std::string ConfigFields::Text(std::string_view name,
                               std::string_view fallback) {
  const Json* value = Find(name);
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->get<std::string>();
  RefuseValue(name, *value, "a text");
  return std::string(fallback);
}

std::vector<double> ConfigFields::Numbers(std::string_view name, size_t count) {
  std::string should_be = fmt::format("a list of {} numbers above 0", count);
  const Json* value = Find(name);
  if (value == nullptr) {
    Refuse(name, fmt::format("is missing, it should be {}", should_be));
    return std::vector<double>(count, 1);
  }
  std::vector<double> numbers;
  if (value->is_array()) {
    for (const Json& number : *value) {
      if (number.is_number() && number.get<double>() > 0) {
        numbers.push_back(number.get<double>());
      }
    }
  }
  if (numbers.size() != count || value->size() != count) {
    RefuseValue(name, *value, should_be);
    numbers.resize(count, 1);
  }
  return numbers;
}

template <typename Item>
std::vector<Item> ConfigFields::List(std::string_view name,
                                     bool (Json::*is)() const noexcept,
                                     std::string_view should_be) {
  std::vector<Item> items;
  const Json* value = Find(name);
  if (value == nullptr) return items;
  for (const Json& item : *value) {
    if (!value->is_array() || !(item.*is)()) {
      RefuseValue(name, *value, should_be);
      return {};
    }
    items.push_back(item.get<Item>());
  }
  return items;
}

std::vector<std::string> ConfigFields::Texts(std::string_view name) {
  return List<std::string>(name, &Json::is_string, "a list of texts");
}

std::vector<int64_t> ConfigFields::Integers(std::string_view name) {
  return List<int64_t>(name, &Json::is_number_integer, "a list of integers");
}

}  // namespace asyra
