// The rules of ir/verify/verifier.h, by kind. Each assumes that the ones before
// it hold, and returns the first violation.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "ir/happens_before.h"
#include "ir/program.h"

namespace asyra {

// Ids in range, names, one definition before every use, inputs, outputs and
// aliases. The other rules rely on these.
absl::Status VerifyStructure(const Program& program);
// Attributes and result types are what definitions say; distribution and what
// each stage allows of it.
absl::Status VerifyTypes(const Program& program);
// Values that are stored in halves (ir/halves.h) are used so by all.
absl::Status VerifyHalves(const Program& program);
// Every start is a collective and has one wait, in the same program.
absl::Status VerifyStarts(const Program& program, const DefUse& def_use);
// Keys that walk: each part of an attention has the keys that its `shift` says,
// each part counts once in results and in gradients, and none is left out.
absl::Status VerifyWalks(const Program& program, const DefUse& def_use);
// Streams: every op has one, reads across them are ordered, collectives of
// one communicator share one.
absl::Status VerifyStreams(const Program& program, const DefUse& def_use,
                           const HappensBefore& order);
// Offsets: which values need one, and that buffers that share bytes are
// ordered.
absl::Status VerifyMemory(const Program& program, const DefUse& def_use,
                          const HappensBefore& order);

// "OP AS PRINTED: message".
absl::Status OpError(const Program& program, const Op& op,
                     std::string_view message);
// The op that defines a value as printed, or "input %x".
std::string Definer(const Program& program, int op, ValueId value);

}  // namespace asyra
