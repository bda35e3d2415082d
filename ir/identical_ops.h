// Finds ops of a program that do the same to values of the same types, as those
// of its layers do, without printing them.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "ir/program.h"

namespace asyra {

class IdenticalOps {
 public:
  // The program must outlive it, with the ops that were given.
  explicit IdenticalOps(const Program& program) : program_(program) {}

  // The first op given that has the definition, attributes, stream, operand and
  // result types of this one, and starts if it does: itself if there is none.
  int FirstIdentical(int op);

 private:
  using Ops = absl::InlinedVector<int, 1>;  // ops that differ

  uint64_t HashOf(const Op& op) const;
  bool AreIdentical(const Op& a, const Op& b) const;

  const Program& program_;
  absl::flat_hash_map<uint64_t, Ops> by_hash_;
};

}  // namespace asyra
