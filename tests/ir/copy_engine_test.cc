#include "gtest/gtest.h"
#include "ir/gpu/copy_engine_reach.h"
#include "ir/parser.h"
#include "ir/support/check.h"

namespace asyra {
namespace {

// Of two ranks along x.
bool CanCarry(std::string_view text) {
  Mesh mesh = ASYRA_VALUE(Mesh::Create({{"x", 2}}));
  ParsedCall call = ASYRA_VALUE(ParseCall(text, mesh));
  std::vector<Type> results =
      ASYRA_VALUE(InferTypes(*call.def, call.attrs, call.operands, mesh));
  return CopyEnginesCanCarry({*call.def, call.attrs, call.operands, results},
                             mesh);
}

TEST(CopyEngine, CarriesWhatIsNotReduced) {
  EXPECT_TRUE(CanCarry("all_gather(f32[4@x, 6]) {dim=0, axes=x}"));
  EXPECT_TRUE(CanCarry("all_gather(i64[3, 2, 8@x]) {dim=2, axes=x}"));
  EXPECT_TRUE(CanCarry("all_to_all(bf16[3, 4, 6@x]) {from=2, to=1, axes=x}"));
  EXPECT_FALSE(CanCarry("all_gather(f32[0@x, 6]) {dim=0, axes=x}")) << "empty";
  EXPECT_FALSE(CanCarry("neg(f32[4@x, 6])"));
}

TEST(CopyEngine, CarriesReductionsOfFloatsInAlignedParts) {
  EXPECT_TRUE(CanCarry("all_reduce(f32[16, 8] partial(x)) {axes=x}"));
  EXPECT_FALSE(CanCarry("all_reduce(i64[16, 8] partial(x)) {axes=x}"));
  EXPECT_FALSE(CanCarry("all_reduce(f32[3, 3] partial(x)) {axes=x}"));
  // A part of each rank: 32 bytes are two of 16, 16 are two of 8.
  EXPECT_TRUE(CanCarry("all_reduce(f32[8] partial(x)) {axes=x}"));
  EXPECT_FALSE(CanCarry("all_reduce(f32[4] partial(x)) {axes=x}"));
  // 16 bytes, and 8, that are contiguous in the operand.
  EXPECT_TRUE(CanCarry("reduce_scatter(f32[3, 8] partial(x)) {dim=1, axes=x}"));
  EXPECT_FALSE(
      CanCarry("reduce_scatter(f32[3, 4] partial(x)) {dim=1, axes=x}"));
}

TEST(CopyEngine, CarriesOneValue) {
  EXPECT_FALSE(
      CanCarry("all_gather(f32[4@x, 6], f32[4@x, 6]) {dim=0, axes=x}"));
}

}  // namespace
}  // namespace asyra
