// Heads of attention in equal parts, each device's by itself.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/builder.h"

namespace asyra {

// One of several equal parts of heads that so many devices share, or will.
struct HeadPart {
  int64_t devices = 1;
  int64_t part = 0, of = 1;
};

// Appends ops that take a part of the heads of each device, in dimension `dim`.
absl::StatusOr<ValueId> TakeHeads(ValueId value, int dim, const HeadPart& part,
                                  const std::string& name, Builder* builder);

// Appends ops that join the parts, in order.
absl::StatusOr<ValueId> JoinHeads(absl::Span<const ValueId> parts, int dim,
                                  int64_t devices, const std::string& name,
                                  Builder* builder);

}  // namespace asyra
