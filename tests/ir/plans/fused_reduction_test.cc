// Bodies of one kernel: a reduction over devices and what is computed from it.
#include "ir/plans/fused_reduction.h"

#include "gmock/gmock.h"
#include "ir/call_parser.h"
#include "ir/interpreter.h"
#include "ir/overlap.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Mesh TwoByTwo() { return ASYRA_VALUE(Mesh::Create({{"a", 2}, {"b", 2}})); }

// Of a whole call, "overlap(...) {...}".
absl::StatusOr<FusedReduction> Parts(std::string_view text) {
  ParsedCall call = ASYRA_VALUE(ParseCall(text, TwoByTwo()));
  return FusedReductionOf(*BodyOf(call.attrs), call.operands, TwoByTwo());
}

TEST(FusedReduction, AllReduceAndRows) {
  FusedReduction fused =
      ASYRA_VALUE(Parts("overlap(f32[4,8], f32[4,8] partial(a), f32[8]) {"
                        "%3 = all_reduce(%1) {axes=a} : f32[4,8] "
                        "%4 = add(%0, %3) : f32[4,8] "
                        "%5 = rms_norm(%4, %2) {eps=0.125} : f32[4,8] "
                        "return %5, %4}"));
  EXPECT_EQ(BodyOutline(fused.rows), "add(%0, %1); rms_norm(%3, %2)");
  EXPECT_THAT(fused.rows.results, ElementsAre(4, 3));
  EXPECT_EQ(fused.summed, 1);
  EXPECT_THAT(fused.gathered, ElementsAre(-1, -1));
  EXPECT_EQ(fused.members, 2);
  EXPECT_EQ(fused.read_from_others, 4 * 8 * 4);
  EXPECT_EQ(fused.written_to_others, 0);
}

TEST(FusedReduction, ScatteredRowsThatAreGathered) {
  FusedReduction fused = ASYRA_VALUE(
      Parts("overlap(f32[8,8] partial(a,b), f32[8@(a,b),8]) {"
            "%2 = reduce_scatter(%0) {dim=0, axes=(a,b)} : f32[8@(a,b),8] "
            "%3 = add(%2, %1) : f32[8@(a,b),8] "
            "%4 = exp(%3) : f32[8@(a,b),8] "
            "%5 = all_gather(%4) {dim=0, axes=(a,b)} : f32[8,8] "
            "return %3, %5}"));
  EXPECT_EQ(BodyOutline(fused.rows), "add(%0, %1); exp(%2)");
  EXPECT_THAT(fused.rows.results, ElementsAre(2, 3));
  EXPECT_THAT(fused.gathered, ElementsAre(-1, 0));
  EXPECT_EQ(fused.members, 4);
  // Two rows of each of three others, and as much to them.
  EXPECT_EQ(fused.read_from_others, 3 * 2 * 8 * 4);
  EXPECT_EQ(fused.written_to_others, 3 * 2 * 8 * 4);
  EXPECT_EQ(fused.operands[0].Local(TwoByTwo()).shape(), (Shape{2, 8}));
}

TEST(FusedReduction, RefusesOtherBodies) {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"overlap(f32[4@a,8], f32[4,8]) {"
       "%2 = all_gather(%0) {dim=0, axes=a} : f32[4,8] "
       "%3 = add(%2, %1) : f32[4,8] "
       "return %3}",
       "its first op is all_gather, not a reduction over devices"},
      {"overlap(f32[4,8] partial(a)) {"
       "%1 = all_reduce(%0) {axes=a} : f32[4,8] "
       "%2 = neg(%0) : f32[4,8] partial(a) "
       "%3 = neg(%1) : f32[4,8] "
       "return %2, %3}",
       "%0, which is reduced, is read again"},
      {"overlap(f32[4,8] partial(a), f32[8,8]) {"
       "%2 = all_reduce(%0) {axes=a} : f32[4,8] "
       "%3 = matmul(%2, %1) : f32[4,8] "
       "%4 = neg(%3) : f32[4,8] "
       "return %4, %2}",
       "form one_kernel"},
      {"overlap(f32[4,8] partial(a)) {"
       "%1 = reduce_scatter(%0) {dim=0, axes=a} : f32[4@a,8] "
       "%2 = neg(%1) : f32[4@a,8] "
       "%3 = all_gather(%2) {dim=0, axes=a} : f32[4,8] "
       "%4 = neg(%3) : f32[4,8] "
       "return %4}",
       "%3, which is gathered, is read"},
      {"overlap(f32[4,8] partial(a)) {"
       "%1 = reduce_scatter(%0) {dim=0, axes=a} : f32[4@a,8] "
       "%2 = neg(%1) : f32[4@a,8] "
       "%3 = all_to_all(%2) {from=0, to=1, axes=a} : f32[4,8@a] "
       "return %3}",
       "op 2 is all_to_all; after its reduction only gathers communicate"},
  };
  for (const auto& [text, error] : kCases) {
    auto parts = Parts(text);
    ASSERT_FALSE(parts.ok()) << text;
    EXPECT_THAT(parts.status().message(), HasSubstr(error));
  }
}

constexpr char kProgram[] = R"(asyra 1 local
mesh (a=2, b=2)

program @f(%x: f32[6, 4@a], %y: f32[4@a, 8], %r: f32[6@b, 8]) ->
    (f32[6@b, 8], f32[6, 8]) {
  %p = matmul(%x, %y) : f32[6, 8] partial(a)
  %q = shard(%p) {dim=0, axes=b} : f32[6@b, 8] partial(a)
  %s, %n = overlap(%q, %r) {
    %2 = all_reduce(%0) {axes=a} : f32[6@b, 8]
    %3 = add(%2, %1) : f32[6@b, 8]
    %4 = softmax(%3) : f32[6@b, 8]
    return %3, %4
  } {form=one_kernel} : f32[6@b, 8], f32[6@b, 8]
  %all = all_gather(%n) {dim=0, axes=b} : f32[6, 8]
  return %s, %all
}
)";

// A collective and a fusion, which mean the same.
TEST(FusedReduction, BecomesACollectiveAndAFusion) {
  Program program = ASYRA_VALUE(ParseProgram(kProgram));
  EXPECT_EQ(Verify(program), absl::OkStatus());
  EXPECT_EQ(ToString(ASYRA_VALUE(ParseProgram(ToString(program)))),
            ToString(program));
  Program inlined = ASYRA_VALUE(InlineOverlaps(program));
  EXPECT_EQ(Verify(inlined), absl::OkStatus());
  std::vector<std::string_view> ops;
  for (const Op& op : inlined.ops) ops.push_back(op.def->name);
  EXPECT_THAT(ops, ElementsAre("matmul", "shard", "all_reduce", "fusion",
                               "all_gather"));
  // Values in registers are neither written nor read; flops are the same.
  Work fused = WorkOf(OpUse(program, program.ops[2]), program.mesh);
  Work rows = WorkOf(OpUse(inlined, inlined.ops[3]), inlined.mesh);
  EXPECT_EQ(fused.flops, rows.flops);
  EXPECT_EQ(fused.write_bytes, rows.write_bytes);
  EXPECT_EQ(fused.read_bytes, rows.read_bytes + 3 * 8 * 4);
  std::vector<Tensor> inputs = RandomInputs(program, 1, 256);
  std::vector<Tensor> want = ASYRA_VALUE(Interpret(inlined, inputs));
  std::vector<Tensor> got = ASYRA_VALUE(Interpret(program, inputs));
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(SameBytes(got[i], want[i]));
  }
}

// Of the kernel's own rows alone: peers read the summands and write gathers.
TEST(FusedReduction, OverwritesWhatOnlyThisDeviceReads) {
  Program program = ASYRA_VALUE(ParseProgram(kProgram));
  OpUse use(program, program.ops[2]);
  const OpDef& def = *program.ops[2].def;
  EXPECT_FALSE(def.result_in_place(use, 0, 0));
  EXPECT_FALSE(def.result_in_place(use, 0, 1));
  EXPECT_TRUE(def.result_in_place(use, 1, 0));
}

// As the verifier says it.
TEST(FusedReduction, HasNoPieces) {
  ParsedCall call =
      ASYRA_VALUE(ParseCall("overlap(f32[4,8] partial(a)) {"
                            "%1 = all_reduce(%0) {axes=a} : f32[4,8] "
                            "%2 = neg(%1) : f32[4,8] "
                            "return %2} {form=one_kernel, parts=2}",
                            TwoByTwo()));
  auto types = InferTypes(*call.def, call.attrs, call.operands, TwoByTwo());
  ASSERT_FALSE(types.ok());
  EXPECT_THAT(types.status().message(),
              HasSubstr("form one_kernel has no pieces"));
}

}  // namespace
}  // namespace asyra
