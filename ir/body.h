// The body of a `fusion` op: a small straight-line program over the op's
// operands that runs as one kernel. Its values are numbered: the operands, then
// the result of each op in order. It repeats no types; those of its values
// follow from the operands', so that a body that is sharded or cut into tiles
// stays the same body.
#pragma once

#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/attr.h"
#include "ir/axis_rule.h"
#include "ir/op_def.h"

namespace asyra {

struct BodyOp {
  const OpDef* def = nullptr;
  absl::InlinedVector<int, 4> operands;  // numbers of values
  AttrMap attrs;                         // complete
  friend bool operator==(const BodyOp& a, const BodyOp& b) {
    return a.def == b.def && a.operands == b.operands && a.attrs == b.attrs;
  }
};

struct Body {
  int num_operands = 0;
  std::vector<BodyOp> ops;   // of one result each
  std::vector<int> results;  // numbers of values

  int num_values() const { return num_operands + static_cast<int>(ops.size()); }
  friend bool operator==(const Body& a, const Body& b) {
    return a.num_operands == b.num_operands && a.ops == b.ops &&
           a.results == b.results;
  }
};

// The body among the attributes of an op, or null.
const Body* BodyOf(const AttrMap& attrs);

// Returns whether the body is a matmul (Fusable::kMatmul) and what follows it.
bool BeginsWithMatmul(const Body& body);

// The types of all values of a body, distributed as the operands are by the
// rule of the whole.
// Errors: an invalid body (an op that cannot be fused, a value that is used
// before its definition, never read, or returned twice), a wrong number of
// operands, a matmul that is not the first op, a reduction after one or over a
// dimension that is not the last, and errors of the ops' definitions: "op 1 of
// the body, rms_norm: ...".
absl::StatusOr<std::vector<Type>> BodyTypes(const Body& body,
                                            absl::Span<const Type> operands,
                                            const Mesh& mesh);

// The axis rule of the body from those of its ops: a dimension of a value is
// one factor for the op that defines it and for those that read it. A factor
// that some op reduces over, or that some result lacks, is whole. `types` are
// those of all values, without axes.
// Errors, which name value and dimension: two ops bind factors of different
// sizes, or one factor twice.
absl::StatusOr<AxisRule> BodyAxisRule(const Body& body,
                                      absl::Span<const Type> types);
// The same with every value of the body as a result.
absl::StatusOr<AxisRule> BodyValuesRule(const Body& body,
                                        absl::Span<const Type> types);

// The call of one op, given the types of all values of the body.
class BodyCall {
 public:
  BodyCall(const Body& body, size_t op, absl::Span<const Type> types);
  BodyCall(const BodyCall&) = delete;
  BodyCall& operator=(const BodyCall&) = delete;
  const OpCall& call() const { return call_; }

 private:
  std::vector<Type> operands_;
  OpCall call_;
};

// The shape of the loop that computes a body: that of its largest value.
Shape LoopShape(absl::Span<const Type> types);

// Describes the body in one line without types or numbers:
// "add(%0, %1); rms_norm(%3, %2)". Equal for bodies with equal cost.
std::string BodyOutline(const Body& body);

// The op's name for reports: "matmul", "fusion(add+rms_norm)".
std::string OpLabel(const OpDef& def, const AttrMap& attrs);

}  // namespace asyra
