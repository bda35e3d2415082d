#include "ir/weights/safetensors.h"

#include <algorithm>

#include "ir/support/status.h"
#include "nlohmann/json.hpp"

namespace asyra {

using nlohmann::json;

int64_t PlaceEntries(std::vector<SafetensorsEntry>* entries) {
  std::stable_sort(entries->begin(), entries->end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return SizeOf(a.dtype) > SizeOf(b.dtype);
                   });
  int64_t at = 0;
  for (SafetensorsEntry& entry : *entries) {
    entry.begin = at;
    at += entry.bytes();
  }
  return at;
}

absl::StatusOr<std::string> SafetensorsHeader(
    absl::Span<const SafetensorsEntry> entries,
    const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const SafetensorsEntry& entry : entries) {
    header[entry.name] = {
        {"dtype", SafetensorsName(entry.dtype)},
        {"shape", entry.shape},
        {"data_offsets", {entry.begin, entry.begin + entry.bytes()}}};
  }
  std::string text =
      header.dump(-1, ' ', false, json::error_handler_t::replace);
  // JSON holds UTF-8 only; other names come back changed.
  if (json::parse(text) != header) {
    return Invalid("a tensor's name is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) +
         text;
}

std::string_view SafetensorsName(DType dtype) {
  constexpr std::string_view kNames[] = {"BOOL", "I32", "I64", "F16",
                                         "BF16", "F32", "F64"};
  return kNames[static_cast<int>(dtype)];
}

}  // namespace asyra
