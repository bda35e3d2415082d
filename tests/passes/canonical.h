// What canonicalize makes of a small program.
#pragma once

#include "gtest/gtest.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "passes/raise/canonicalize.h"
#include "tests/support/untyped.h"

namespace asyra {

// Canonicalizes, and checks that the result verifies, means the same and is
// left alone by a second run.
inline Program Canonical(std::string_view text) {
  Program before = ASYRA_VALUE(ParseUntyped(text));
  Program after = before;
  PassContext context;
  auto changed = Canonicalize(after, {}, context);
  EXPECT_TRUE(changed.ok()) << changed.status();
  EXPECT_TRUE(Verify(after).ok()) << Verify(after) << ToString(after);
  absl::Status same = SameMeaning(before, after, 17, 1e-5);
  EXPECT_TRUE(same.ok()) << same << ToString(after);
  Program again = after;
  EXPECT_FALSE(Canonicalize(again, {}, context).value());
  EXPECT_EQ(ToString(again), ToString(after));
  return after;
}

inline std::string Canonized(std::string_view text) {
  return OpCounts(Canonical(text));
}

}  // namespace asyra
