// What every kernel of every device must satisfy: each sample of each op, as a
// program of that op alone.
#pragma once

#include <vector>

#include "ir/program.h"
#include "tests/ir/op_case.h"

namespace asyra {

// What single precision costs a sum of a few small numbers.
inline constexpr double kKernelTolerance = 1e-5;

// The op alone; what is partial after it is summed.
Program ProgramOf(const ParsedCall& call, const Mesh& mesh);

// Of every input of `program`, filled as the case says.
std::vector<Tensor> InputsOf(const Program& program, const OpCase& op_case);

// Uses whose kernels ask where their shard begins, and element types that few
// samples have.
std::vector<OpCase> ShardedCases();

}  // namespace asyra
