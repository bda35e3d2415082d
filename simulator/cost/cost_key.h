// The coordinates of a use among others of its kind, so that measurements of
// some apply to the others.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "ir/op_def.h"
#include "simulator/cost/collective_cost.h"

namespace asyra {

struct CostKey {
  // Uses that can be compared: of one op over one element type, or of one
  // collective inside a host, for any element type; by copy engines or by the
  // library.
  std::pair<std::string_view, int> kind;
  // In doublings. Matmuls: batch, rows, columns and depth; collectives:
  // payload and, threefold, ranks, as their number changes more than their
  // size does; overlaps: operations and bytes; all others: bytes read and
  // written.
  std::array<double, 4> at = {};
  std::string flags;  // attributes that are switches or choices, "causal=1"
  // The epilogue of a fusion that begins with a matmul, "bias+gelu_tanh";
  // otherwise it is treated as a matmul. Of an overlap, how many ranks. Only
  // uses in which it is equal are compared.
  std::string behind;
};

// `work` and `result` (the type of result 0) are those of one device.
CostKey ComputeKey(const OpCall& call, const Work& work, const Type& result);
// `copy_engine`: copy engines carry it.
CostKey CollectiveKey(CollectiveKind kind, double payload_bytes,
                      const GroupSpan& span, bool copy_engine);

// The element type an op computes in: its first operand's.
DType ComputeDType(const OpCall& call);

}  // namespace asyra
