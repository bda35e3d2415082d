// Matmuls that a kernel adds to a value: a fusion (ir/body.h) of a matmul and
// an add of one operand of its type, as the parts of a weight's gradient are
// summed over tiles. The sum may be written over what it is added to.
#pragma once

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "ir/body.h"
#include "ir/program.h"

namespace asyra {

// The operand of a body that it adds to a matmul, if it does nothing else; -1:
// it is no accumulation. `types` are those of all values.
int AccumulatesOn(const Body& body, absl::Span<const Type> types);
// The same of an op.
int AccumulatesOn(const Program& program, const Op& op);

// A matmul of the first `last` operands, added to operand `last`.
Body AddedTo(BodyOp matmul, int last);

// Returns whether it is a matmul that AddedTo can add to a value.
bool IsMatmul(const Op& op);
// `matmul` added to a value of the type of its result, without results.
Op AddedTo(const Op& matmul, ValueId onto);

// A matmul, alone or added to a value.
struct AddedMatmul {
  Op op;                    // the matmul, without results
  ValueId onto = kNoValue;  // the summand
};
// None where the op is neither.
std::optional<AddedMatmul> AddedMatmulOf(const Program& program, const Op& op);

// By value, what it is added to where no other op reads that: the sum takes its
// buffer whatever the order of the ops. kNoValue: another value, or a result
// that may take a buffer only in some orders (ir/memory/memory_blocks.h). Empty
// if there are none, or offsets say where values are.
std::vector<ValueId> SummedInPlace(const Program& program);

}  // namespace asyra
