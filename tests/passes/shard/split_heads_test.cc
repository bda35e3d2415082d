#include "passes/shard/split_heads.h"

#include "gmock/gmock.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"
#include "passes/pass_manager.h"
#include "passes/pipeline.h"
#include "tests/support/most_different.h"
#include "tests/support/parse.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

int64_t CountOps(const Program& program, std::string_view name) {
  return absl::c_count_if(program.ops,
                          [&](const Op& op) { return op.def->name == name; });
}

Program InHeads(const Program& program, int64_t parts, std::string* remark) {
  Program split = program;
  PassContext context;
  ASYRA_CHECK_OK(RunPasses(split, HeadPasses(parts), context));
  if (remark != nullptr) *remark = context.remarks.back();
  return split;
}

// Rows for heads, and back; heads are shared over tp besides.
Program Exchanged() {
  return Parse(R"(asyra 1 local
mesh (tp=2, sp=2)

program @f(%q: f64[2, 8@sp, 16@tp, 2], %k: f64[2, 8@sp, 8@tp, 2],
    %sinks: f64[16@(tp,sp)]) -> (f64[2, 8@sp, 16@tp, 2]) {
  %qh = all_to_all(%q) {from=1, to=2, axes=sp} : f64[2, 8, 16@(tp,sp), 2]
  %kh = all_to_all(%k) {from=1, to=2, axes=sp} : f64[2, 8, 8@(tp,sp), 2]
  %yh = attention(%qh, %kh, %kh, %sinks) {causal=true, scale=0.5} : f64[2, 8, 16@(tp,sp), 2]
  %y = all_to_all(%yh) {from=2, to=1, axes=sp} : f64[2, 8@sp, 16@tp, 2]
  return %y
}
)");
}

TEST(SplitHeads, ExchangesEachPart) {
  Program program = Exchanged();
  EXPECT_EQ(HeadPartsOf(program, 4), 2);
  Program split = InHeads(program, 2, nullptr);
  EXPECT_EQ(Verify(split), absl::OkStatus());
  EXPECT_EQ(CountOps(split, "attention"), 2);
  EXPECT_EQ(CountOps(split, "all_to_all"), 6);
  EXPECT_EQ(MostDifferent(program, split), 0);
}

TEST(SplitHeads, GathersKeysOfEachPart) {
  Program program = Parse(R"(asyra 1 local
mesh (sp=2)

program @f(%q: f64[1, 8@sp, 8, 2], %k: f64[1, 8@sp, 4, 2],
    %mask: bool[1, 1, 8@sp, 8]) -> (f64[1, 8@sp, 8, 2]) {
  %kw = all_gather(%k) {dim=1, axes=sp} : f64[1, 8, 4, 2]
  %y = attention(%q, %kw, %kw, %mask) {scale=0.5} : f64[1, 8@sp, 8, 2]
  return %y
}
)");
  Program split = InHeads(program, 4, nullptr);
  EXPECT_EQ(Verify(split), absl::OkStatus());
  EXPECT_EQ(CountOps(split, "all_gather"), 4);
  EXPECT_EQ(MostDifferent(program, split), 0);
}

TEST(SplitHeads, LeavesWhatItCannotTake) {
  std::string remark;
  Program whole = InHeads(Exchanged(), 3, &remark);
  EXPECT_EQ(CountOps(whole, "attention"), 1);
  EXPECT_THAT(remark, HasSubstr("has 3 parts of them on each device"));
  PassContext context;
  Program program = Exchanged();
  EXPECT_THAT(RunPasses(program, HeadPasses(0), context).message(),
              HasSubstr("parts is 0, it must be at least 1"));
}

}  // namespace
}  // namespace asyra
