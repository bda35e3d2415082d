// The header of a safetensors file: 8 bytes of length, JSON that says where
// each tensor is in the data behind it, and spaces up to a multiple of 8.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/type.h"

namespace asyra {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  int64_t begin = 0;  // bytes into the data

  int64_t bytes() const { return NumElements(shape) * SizeOf(dtype); }
};

// Orders the entries so that data without holes is aligned: the widest elements
// first, as the format's own writer does, otherwise as they are. Sets `begin`,
// and returns the bytes of all data.
int64_t PlaceEntries(std::vector<SafetensorsEntry>* entries);

// The header of entries that PlaceEntries has placed. Error: a name that is not
// UTF-8.
absl::StatusOr<std::string> SafetensorsHeader(
    absl::Span<const SafetensorsEntry> entries,
    const std::map<std::string, std::string>& metadata = {});

// The format's name of an element type: "BF16".
std::string_view SafetensorsName(DType dtype);

}  // namespace asyra
