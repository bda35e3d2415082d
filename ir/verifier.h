// Checks a program against the rules of its stage; every pass is followed by
// one call (passes/pass_manager.h).
#pragma once

#include "absl/status/status.h"
#include "ir/program.h"

namespace asyra {

// All stages: values are defined once, before use; operand counts, attributes
// and types are what the op's definition infers; inputs, outputs and aliases
// are consistent.
// global: no axes, no partial, no collective, no start, no stream.
// local: each op's operands and results satisfy its axis rule; no output is
//   partial.
// scheduled: every op has a stream; every `start` is a collective and has
//   exactly one `wait`, after it; no other op reads a future; a value crosses
//   streams only through start/wait, `after`, or what these already order.
// allocated: every value has an offset; buffers that share bytes have live
//   ranges ordered by happens-before.
// The first violation, with the op as printed.
absl::Status Verify(const Program& program);

}  // namespace asyra
