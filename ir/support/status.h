// Errors a user can cause are an absl::Status that names the place and both
// values: "matmul: contracting sizes differ: lhs dim 1 is 4, rhs dim 0 is 8".
// This header has the short forms for making and passing them on.
#pragma once

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"

namespace asyra {

template <typename... Args>
absl::Status Invalid(fmt::format_string<Args...> text, Args&&... args) {
  return absl::InvalidArgumentError(
      fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
absl::Status Unimplemented(fmt::format_string<Args...> text, Args&&... args) {
  return absl::UnimplementedError(
      fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
absl::Status NotFound(fmt::format_string<Args...> text, Args&&... args) {
  return absl::NotFoundError(fmt::format(text, std::forward<Args>(args)...));
}

// The message; Debian's absl::string_view is a type of its own.
inline std::string_view MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

// The same error, with "place: " in front of its message.
inline absl::Status Annotate(const absl::Status& status,
                             std::string_view place) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      fmt::format("{}: {}", place, MessageOf(status)));
}

}  // namespace asyra

#define ASYRA_RETURN_IF_ERROR(expr)              \
  do {                                           \
    absl::Status asyra_status = (expr);          \
    if (!asyra_status.ok()) return asyra_status; \
  } while (false)

#define ASYRA_CONCAT_INNER(a, b) a##b
#define ASYRA_CONCAT(a, b) ASYRA_CONCAT_INNER(a, b)

// ASYRA_ASSIGN_OR_RETURN(auto x, F()) declares x from an absl::StatusOr, or
// returns its status.
#define ASYRA_ASSIGN_OR_RETURN(lhs, expr) \
  ASYRA_ASSIGN_OR_RETURN_IMPL(ASYRA_CONCAT(asyra_or_, __LINE__), lhs, expr)
#define ASYRA_ASSIGN_OR_RETURN_IMPL(temp, lhs, expr) \
  auto temp = (expr);                                \
  if (!temp.ok()) return std::move(temp).status();   \
  lhs = std::move(temp).value()
