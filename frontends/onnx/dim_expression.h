// Sizes that exporters write as expressions of others: "past + 1", "2*n".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace asyra::onnx_import {

// The names in an expression of integers, names, + - * / // %, parentheses,
// Max(a, b), Min(a, b) and floor(a), in order of appearance, each once. None if
// the text is no such expression, or is a number or a name alone.
std::optional<std::vector<std::string>> NamesInDim(std::string_view text);

// Returns the value of an expression, an integer division rounded down as
// Python does. `text` is the expression, and `size_of` gives the size of each
// of its names. Errors: a division by 0, or by / with a remainder; more than 63
// bits.
absl::StatusOr<int64_t> ValueOfDim(
    std::string_view text,
    const std::function<int64_t(const std::string&)>& size_of);

}  // namespace asyra::onnx_import
