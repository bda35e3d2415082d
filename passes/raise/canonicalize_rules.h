// The rules of canonicalize, by subject.
#pragma once

#include "passes/rewrite/rewriter.h"

namespace asyra {

// Constant folding: small results of constant operands, and all values known to
// be uniform.
absl::StatusOr<ValueId> FoldConstants(Rewriter& to, const Rewriter::NewOp& op);
// Ops that return an operand: x + 0, a cast to x's own type, ...
absl::StatusOr<ValueId> RemoveIdentity(Rewriter& to, const Rewriter::NewOp& op);
// One spelling for several: x^2 as x*x, 1/sqrt(x) as rsqrt(x), ...
absl::StatusOr<ValueId> Respell(Rewriter& to, const Rewriter::NewOp& op);
// A reshape of a reshape, a slice of a concat, a transpose that only moves
// dimensions of size 1, ...
absl::StatusOr<ValueId> MergeViews(Rewriter& to, const Rewriter::NewOp& op);
// A gather at known indices becomes a slice, a scatter at known indices a
// concat.
absl::StatusOr<ValueId> PickByPosition(Rewriter& to, const Rewriter::NewOp& op);
// Reshapes that merge leading dimensions move after ops that allow it, until
// they reach the reshape that undoes them.
absl::StatusOr<ValueId> SinkReshape(Rewriter& to, const Rewriter::NewOp& op);
// Transposes move into matmul's flags, and after ops on elements, rows or
// single dimensions.
absl::StatusOr<ValueId> SinkTranspose(Rewriter& to, const Rewriter::NewOp& op);

// All of them, in the order they are tried.
inline constexpr Rewriter::Rule kCanonicalRules[] = {
    FoldConstants,  RemoveIdentity, Respell,      MergeViews,
    PickByPosition, SinkReshape,    SinkTranspose};

}  // namespace asyra
