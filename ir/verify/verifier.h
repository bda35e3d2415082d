// Checks a program against the rules of its stage; every pass is followed by
// one call (passes/pass_manager.h).
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

// All stages: values are defined once, before use; operand counts, attributes
// and types are what the op's definition infers; inputs, outputs and aliases
// are consistent; what is stored in halves is used so by all (ir/halves.h).
// global: no axes, no partial, no collective, no start, no stream.
// local: each op's operands and results satisfy its axis rule; no input and no
//   output is partial but states and what replaces them. Keys of which devices
//   have a shard each (`shards` of attention) come from the device that `shift`
//   says, as far as they can be followed: through shifts, gathers, views, tiles
//   and casts from an input or the result of another op, which is taken to be
//   in place. The parts that are merged have the same queries and attributes,
//   each shard once, and all that rows see; gradients of keys that are added
//   are of the keys of one device, each part once, and none is left out.
// scheduled: every op has a stream; every `start` is a collective and each of
//   its futures has exactly one `wait`; no other op reads one; a value crosses
//   streams only through start/wait, `after`, or what these already order, so
//   every read happens after its write; collectives over the same devices are
//   on one stream.
// allocated: results have offsets into the arena, except constants
//   (IsSetUpOnce), made before the first step, and outputs stored in the state
//   that they replace; inputs need none, since their owner keeps them. Buffers
//   that share bytes are ordered by happens-before: each op that reads a
//   buffer, or a view of it, has finished before the next one is written,
//   except an op that works in place (OpDef::in_place) on its own operand.
//   Operands of a `start` are read until the first `wait` for it. Weights,
//   states, constants and outputs outlive the program.
// Returns the first violation, with the op as printed.
//
// No deadlock within a program: program order is a topological order of all
// that ops wait for. A stream runs its ops in that order, operands and `after`
// name values that are defined above (an `after` on a later op is a use before
// its definition), and a wait is below its start. Nor among ranks that run the
// same program: of the ops that some rank has not finished, the first in
// program order can run, since all that come before it have finished
// everywhere, and if it is a collective all members reach it. This assumes that
// streams really run concurrently: a collective that finds no free SMs while
// another one waits for it is not detected.
absl::Status Verify(const Program& program);

// Checks ranks that run different programs, each one verified. Program i is
// that of device i of the mesh that all share.
//   The members of every group (the devices over the axes of a collective)
//   run the same collectives in the same order: kind, axes, attributes, and the
//   bytes and types of operands and results. The error names the group, the
//   position, both ranks and both ops.
//   Groups of different axes interleave without a cycle of waits, such as rank
//   0 with tp before dp and rank 1 with dp before tp. The error names the
//   cycle.
// Near-linear in all ops together.
absl::Status VerifyRanks(absl::Span<const Program> ranks);

}  // namespace asyra
