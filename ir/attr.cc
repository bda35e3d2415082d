#include "ir/attr.h"

#include <algorithm>

namespace asyra {

std::string_view ToString(AttrKind kind) {
  constexpr std::string_view kNames[] = {"bool", "int",  "float", "string",
                                         "ints", "axes", "dtype", "tensor",
                                         "body", "plan"};
  return kNames[static_cast<int>(kind)];
}

bool operator==(const Tensor& a, const Tensor& b) { return SameBytes(a, b); }

AttrMap::AttrMap(
    std::initializer_list<std::pair<std::string, AttrValue>> entries) {
  for (const auto& [name, value] : entries) Set(name, value);
}

const AttrValue* AttrMap::Find(std::string_view name) const {
  for (const auto& [key, value] : entries_) {
    if (key == name) return &value;
  }
  return nullptr;
}

void AttrMap::Set(std::string_view name, AttrValue value) {
  auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                             [](const auto& entry, std::string_view key) {
                               return entry.first < key;
                             });
  if (at != entries_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    entries_.emplace(at, std::string(name), std::move(value));
  }
}

void AttrMap::Erase(std::string_view name) {
  std::erase_if(entries_,
                [&](const auto& entry) { return entry.first == name; });
}

}  // namespace asyra
