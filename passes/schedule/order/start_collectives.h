// Makes every collective asynchronous: it starts as soon as its operand is
// ready, and the wait is just before its value is first read. The ops between
// the two hide it.
//
//   %s = all_reduce(%p) {axes=tp}
// becomes
//   %s.future = start all_reduce(%p) {axes=tp} on tp
//   ...
//   %s = wait(%s.future) on compute
//
// From here on the program is `scheduled`: computing ops are on stream
// "compute", collectives on one stream for each communicator, named after its
// axes.
#pragma once

#include "absl/status/statusor.h"
#include "ir/program.h"
#include "passes/pass.h"

namespace asyra {

// Options: early (bool, default true); false starts each collective where it
// is and waits for it at once.
absl::StatusOr<bool> StartCollectives(Program& program,
                                      const PassOptions& options,
                                      PassContext& context);

}  // namespace asyra
