// What a raising pass makes of a small program.
#pragma once

#include "gtest/gtest.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "passes/raise/canonicalize.h"
#include "tests/support/untyped.h"

namespace asyra {

// The program canonicalized, passed through `pass` and canonicalized again.
// Checks that it verifies and computes the same as the text does.
inline Program Transformed(PassFn pass, std::string_view text,
                           double tolerance = 1e-5) {
  Program before = ASYRA_VALUE(ParseUntyped(text));
  Program after = before;
  PassContext context;
  for (PassFn step : {PassFn(Canonicalize), pass, PassFn(Canonicalize)}) {
    auto changed = step(after, {}, context);
    EXPECT_TRUE(changed.ok()) << changed.status();
  }
  EXPECT_TRUE(Verify(after).ok()) << Verify(after) << ToString(after);
  absl::Status same = SameMeaning(before, after, 23, tolerance);
  EXPECT_TRUE(same.ok()) << same << ToString(after);
  return after;
}

inline std::string Ops(PassFn pass, std::string_view text,
                       double tolerance = 1e-5) {
  return OpCounts(Transformed(pass, text, tolerance));
}

// The only op of that name.
inline const Op& OnlyOp(const Program& program, std::string_view name) {
  const Op* only = nullptr;
  for (const Op& op : program.ops) {
    if (op.def->name != name) continue;
    EXPECT_EQ(only, nullptr) << "more than one " << name;
    only = &op;
  }
  ASYRA_CHECK(only != nullptr);
  return *only;
}

}  // namespace asyra
