// The rules of canonicalize, by what they are about.
#pragma once

#include "passes/rewrite/rewriter.h"

namespace asyra {

// Small results of constant operands, and whatever is known to be uniform.
absl::StatusOr<ValueId> FoldConstants(Rewriter& to, const Rewriter::NewOp& op);
// Ops that give an operand back: x + 0, a cast to x's own type, ...
absl::StatusOr<ValueId> RemoveIdentity(Rewriter& to, const Rewriter::NewOp& op);
// One spelling for several: x^2 as x*x, 1/sqrt(x) as rsqrt(x), ...
absl::StatusOr<ValueId> Respell(Rewriter& to, const Rewriter::NewOp& op);
// A reshape of a reshape, a slice of a concat, a transpose that only moves
// dimensions of size 1, ...
absl::StatusOr<ValueId> MergeViews(Rewriter& to, const Rewriter::NewOp& op);
// What is picked by positions that are known becomes a slice, what is
// overwritten there a concat.
absl::StatusOr<ValueId> PickByPosition(Rewriter& to, const Rewriter::NewOp& op);
// Reshapes that merge leading dimensions move behind the ops that do not mind,
// until they meet the reshape that undoes them.
absl::StatusOr<ValueId> SinkReshape(Rewriter& to, const Rewriter::NewOp& op);
// Transposes move into matmul's flags, and behind ops that go by elements, rows
// or single dimensions.
absl::StatusOr<ValueId> SinkTranspose(Rewriter& to, const Rewriter::NewOp& op);

// All of them, in the order they are tried.
inline constexpr Rewriter::Rule kCanonicalRules[] = {
    FoldConstants,  RemoveIdentity, Respell,      MergeViews,
    PickByPosition, SinkReshape,    SinkTranspose};

}  // namespace asyra
