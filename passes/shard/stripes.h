// The sequence in stripes, so that devices see equally many keys.
//
// n devices that compute causal attention for a part of the rows each differ:
// the last of them sees nearly all keys and the first hardly any. Of 2n stripes
// of the sequence, device r therefore takes the stripes r and 2n-1-r:
//
//   natural   0 1 2 3 4 5 6 7
//   striped   0 7 1 6 2 5 3 4      over 4 devices
//
// The order of tokens is renamed once, where the program begins and ends: what
// attention's queries are computed from, along parallel factors of axis rules,
// is striped; a sum over the tokens is the same in any order. An op that needs
// the tokens whole or knows their places finds them in natural order, as
// attention its keys. The rows of an attention are two ops, whose rows are runs
// (attribute `runs`): the first stripe of each device, and the second.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "ir/program.h"

namespace asyra {

// Returns the program of stage global with sequences in stripes for so many
// devices, equal to `program` in inputs and outputs; none where no attention
// has rows that see different keys, or 2 * devices do not divide them.
// Preconditions: devices > 1.
absl::StatusOr<std::optional<Program>> StripeSequence(const Program& program,
                                                      int64_t devices);

}  // namespace asyra
