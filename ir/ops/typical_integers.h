// Integers as operands have them in practice, for timing: those that decide how
// fast a kernel is, or that it takes no others.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/op_def.h"

namespace asyra {

// An element of an operand of a use with local types; nullopt: any number below
// a small limit will do.
std::optional<int64_t> TypicalInteger(const OpCall& local, int operand,
                                      int64_t element);

}  // namespace asyra
