#include "passes/search/capacity_error.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "ir/support/units.h"

namespace asyra {
namespace {

// Names a payload of the error.
constexpr char kLeastBytes[] = "asyra/least_bytes";

}  // namespace

absl::Status NothingFits(int64_t capacity_bytes, int64_t least_bytes) {
  absl::Status status = absl::ResourceExhaustedError(fmt::format(
      "no schedule found fits in {} of a device: the least that one takes is "
      "{}, {} too much",
      BytesText(capacity_bytes), EnoughGib(least_bytes),
      BytesText(least_bytes - capacity_bytes)));
  status.SetPayload(kLeastBytes, absl::Cord(std::to_string(least_bytes)));
  return status;
}

std::optional<int64_t> LeastBytes(const absl::Status& status) {
  auto text = status.GetPayload(kLeastBytes);
  int64_t bytes = 0;
  if (!text.has_value() || !absl::SimpleAtoi(std::string(*text), &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace asyra
