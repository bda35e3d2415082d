// All executions of a small allocated program: an oracle for the static checks
// of ir/verify/verifier.h that knows nothing of happens-before. One rank is
// executed, op by op in every order that its streams and waits allow, each op
// taking from its begin to its end to read and write, and what each byte holds
// is followed.
#pragma once

#include <string>

#include "ir/program.h"

namespace asyra {

// What goes wrong in some execution, empty if nothing does: an op reads bytes
// that do not hold its operand, two ops use the same bytes at once while one
// of them writes, an operand of a `start` is overwritten before its wait is
// over, or something is gone at the end that must outlive the program.
// Values are defined before use and every start has one wait. At most a few
// dozen ops: the number of states is exponential in the streams.
std::string FindHazard(const Program& program);

}  // namespace asyra
