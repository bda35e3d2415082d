// Attention in parts of its heads, so that one part is exchanged while another
// is computed.
//
//   %qh = all_to_all(%q) {from=1, to=2, axes=sp}     %kh, %vh likewise
//   %yh = attention(%qh, %kh, %vh)
//   %y = all_to_all(%yh) {from=2, to=1, axes=sp}
// becomes, for each part of the heads that a device has, these four ops, and
// ops that take and join the parts. Keys that are gathered come in parts too,
// or walk (walk_keys.h).
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Applies to attention whose queries, keys or values come from a collective,
// and of which no gradient is taken; parts must divide the heads of keys that a
// device has.
// Options:
//   parts (int, default 2)
// A remark says how many attentions it applied to. Error: parts is less than 1.
absl::StatusOr<bool> SplitHeads(Program& program, const PassOptions& options,
                                PassContext& context);

// The largest number of parts up to `most` that divides the heads of keys of a
// device, for all attentions that SplitHeads applies to; 1: there are none.
int64_t HeadPartsOf(const Program& program, int64_t most);

}  // namespace asyra
