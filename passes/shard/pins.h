// Shardings that the user fixes: `--shard 'REGEX=0@tp;REGEX=1@(sp,tp)'`.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// Types of values under the pins of their names, or nothing. May be empty.
using Pins = std::vector<std::optional<Type>>;

// Returns the pin of a value, or null.
inline const Type* PinOf(const Pins& pins, ValueId value) {
  return pins.empty() || !pins[value].has_value() ? nullptr : &*pins[value];
}

// Reads pins and finds the values they hold. `REGEX=whole` keeps a value whole
// on every device; several dimensions are `REGEX=0@dp,1@tp`, the axes of one
// outermost first. A pattern must match the whole name of a value, as its
// program prints it after the `%`; the last match applies.
// Errors name the pin and what is wrong: its syntax, a pattern without a
// match, an unknown or repeated axis, a dimension that the value does not have,
// a size that the axes do not divide.
absl::StatusOr<Pins> ReadPins(std::string_view text, const Program& program);

// Checks syntax and axes of pins, without values.
absl::Status CheckPins(std::string_view text, const Mesh& mesh);

}  // namespace asyra
