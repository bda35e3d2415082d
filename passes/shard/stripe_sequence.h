// Chooses whether tokens are striped over the devices that share a sequence
// (stripes.h), by cost.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"
#include "passes/shard/sharding_plan.h"

namespace asyra {

enum class Stripes { kNever, kAuto, kAlways };

// Reads never, auto or always. Errors: another word.
absl::StatusOr<Stripes> ReadStripes(std::string_view text);

struct StripeOptions {
  PlanOptions plan;       // without pins, which are those of ...
  std::string_view pins;  // ... this text (ReadPins)
  Stripes when = Stripes::kAuto;
};

// Plans and partitions a few layers of a program of stage global with sequences
// in natural order and in stripes, for the axes of the mesh that shard tokens,
// and keeps the faster form, by the sum of its ops' costs. Stripes that their
// plan does not give to one device each are not kept. A remark states the
// decision with both times. Without costs in the context the order stays
// natural. Errors: stripes that are asked for and cannot be had.
absl::StatusOr<bool> StripeSequencePass(Program& program,
                                        const StripeOptions& options,
                                        PassContext& context);

}  // namespace asyra
