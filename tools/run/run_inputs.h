// The inputs of a run: recorded ones where there are, random ones elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/comm/communicator.h"
#include "ir/program.h"
#include "tools/weight_data.h"

namespace asyra {

inline constexpr double kRunRate = 1e-4;

// The number of rows of the smallest lookup table in the program: a random
// index below it is valid everywhere. A small number if there is no table.
int64_t IndexLimit(const Program& program);

// One tensor per input of the program. Recorded tensors are given to the data
// and state inputs of their names; when none has the name of an input, in
// order. Weights without data and, where nothing is recorded, other inputs are
// random: they follow from `seed`, their names and positions, and not from the
// mesh. Of a training step (attach_updates), states are zeros, as before its
// first step, and the rate is kRunRate. Random values and zeros are in no
// memory: each rank draws its shard (ir/weights/random_tensors.h).
// Errors: a recorded tensor that no input takes, an input that is not
// recorded, another element type or shape; both are named.
absl::StatusOr<std::vector<Tensor>> RunInputs(const Program& program,
                                              const NamedTensors& recorded,
                                              uint64_t seed);

// The part of a run that this host has.
struct HostUse {
  std::string runs_on = "cpu";  // or "cuda", "interpreter"
  int64_t ranks = 0;            // 0: all of the mesh
  int64_t processes = 1;        // each with its own copy of what is whole
  // From files, as a whole; random data is drawn by shard.
  bool data_is_given = false;
  // Values of params that were made by a program, and are in memory.
  bool params_are_whole = false;
};

// Error when the inputs and weights would take more memory of the host than the
// machine has: on a cpu and in the interpreter devices have it, GPUs have their
// own, and get their shards of weights and states one after the other.
absl::Status CheckHostMemory(const Program& program, const HostUse& use);

// Blocks until all processes of the run have called it, each of which has read
// or drawn the inputs of the whole program itself. Error: data that differs, by
// its hash.
absl::Status CheckSameInputs(const Program& program,
                             absl::Span<const Tensor> inputs,
                             Communicator& world);

}  // namespace asyra
