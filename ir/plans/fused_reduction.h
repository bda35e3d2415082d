// Overlaps of form `one_kernel` (ir/plans/overlap_shape.h): a reduction over
// the devices of a group and what is computed from it by elements and rows, in
// one kernel. The kernel reads the summands in the memory of the other members,
// and writes gathered results there.
//
// What such a body means for one device: `rows`, a fusion (ir/body.h) of one
// operand that is the sum over the members.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/attr.h"
#include "ir/body.h"
#include "ir/mesh.h"

namespace asyra {

inline constexpr std::string_view kOneKernel = "one_kernel";  // a form

struct FusedReduction {
  Body rows;
  // Types of `rows`, distributed: as those of the op, but for `summed`.
  std::vector<Type> operands, results;
  int summed = 0;  // the operand that is reduced
  // By result of the op: the dimension along which members gather it, or -1.
  std::vector<int> gathered;
  int64_t members = 1;
  // Bytes of each member, in one execution.
  int64_t read_from_others = 0, written_to_others = 0;
};

// Returns whether an overlap is of this form.
bool IsOneKernel(const AttrMap& attrs);

// `operands` are those of the overlap, distributed.
// Errors: the first op does not reduce, what it reads is read again, another
// collective than gathers of values that are not read, and those of a fusion's
// body for the rest.
absl::StatusOr<FusedReduction> FusedReductionOf(const Body& body,
                                                absl::Span<const Type> operands,
                                                const Mesh& mesh);

}  // namespace asyra
