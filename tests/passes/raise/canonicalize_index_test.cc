// Reads and writes at positions that are known.
#include "gmock/gmock.h"
#include "ir/weights/weight_store.h"
#include "tests/passes/canonical.h"

namespace asyra {
namespace {

using ::testing::IsEmpty;

TEST(CanonicalizeIndex, KeepsIndicesThatAreOutOfRange) {
  Program program = ASYRA_VALUE(ParseUntyped(R"(
    c = constant() {value=f32[3](1, 2, 3)}
    i = constant() {value=i64[1](7)}
    y = gather(c, i) {dim=0}
    out y)"));
  PassContext context;
  ASSERT_TRUE(Canonicalize(program, {}, context).ok());
  EXPECT_EQ(CountOps(program, "gather"), 1);
}

TEST(CanonicalizeIndex, ReadsAtKnownPositionsAreSlices) {
  // x[:, positions] of all positions is x.
  EXPECT_EQ(Canonized(R"(
    in x f32[3,4,2]
    p = iota() {shape=[4], dim=0, dtype=i64}
    y = gather(x, p) {dim=1}
    out y)"),
            "");
  // One row, counted from the end.
  EXPECT_EQ(Canonized(R"(
    in x f32[3,4]
    last = -1 i64
    y = gather(x, last) {dim=1}
    z = exp(y)
    out z)"),
            "exp 1, reshape 1, slice 1");
  // A mask [batch, key] as [batch, 1, query, key], by two index columns.
  EXPECT_EQ(Canonized(R"(
    in x f32[3,4]
    b = iota() {shape=[3,1,2,4,1], dim=0, dtype=i64}
    p = iota() {shape=[3,1,2,4,1], dim=3, dtype=i64}
    index = concat(b, p) {dim=4}
    y = gather_nd(x, index)
    out y)"),
            "broadcast 1, reshape 1");
  // The columns the other way around.
  EXPECT_EQ(Canonized(R"(
    in x f32[3,4]
    b = iota() {shape=[4,3,1], dim=1, dtype=i64}
    p = iota() {shape=[4,3,1], dim=0, dtype=i64}
    index = concat(b, p) {dim=2}
    y = gather_nd(x, index)
    out y)"),
            "transpose 1");
  // Every third position, from 1.
  EXPECT_EQ(Canonized(R"(
    in x f32[3,8]
    i = iota() {shape=[2], dim=0, dtype=i64}
    three = 3 i64
    one = 1 i64
    p = mul(i, three)
    q = add(p, one)
    y = gather(x, q) {dim=1}
    out y)"),
            "slice 1");
}

TEST(CanonicalizeIndex, ReadsOfFlattenedRows) {
  // x [3, 4], flattened, at 4 b + p.
  EXPECT_EQ(Canonized(R"(
    in x f32[3,4]
    f = reshape(x) {shape=[12]}
    b = iota() {shape=[3,1,1], dim=0, dtype=i64}
    p = iota() {shape=[1,1,4], dim=2, dtype=i64}
    four = 4 i64
    b4 = mul(b, four)
    index = add(b4, p)
    y = gather(f, index) {dim=0}
    out y)"),
            "reshape 1");
  // Not all of a row.
  EXPECT_EQ(CountOps(Canonical(R"(
    in x f32[3,4]
    f = reshape(x) {shape=[12]}
    b = iota() {shape=[3,1], dim=0, dtype=i64}
    p = iota() {shape=[1,3], dim=1, dtype=i64}
    four = 4 i64
    b4 = mul(b, four)
    index = add(b4, p)
    y = gather(f, index) {dim=0}
    out y)"),
                     "gather"),
            1);
}

TEST(CanonicalizeIndex, StoredPositionsUnderAnotherShape) {
  Program program = ASYRA_VALUE(ParseUntyped(R"(
    in x f32[2,4]
    weight positions i64[8]
    p = reshape(positions) {shape=[2,4]}
    i = iota() {shape=[2,4], dim=1, dtype=i64}
    same = equal(p, i)
    zero = 0
    y = select(same, x, zero)
    out y)"));
  auto store = std::make_shared<WeightStore>();
  store->Set("positions",
             Tensor::FromInts(DType::kI64, {8}, {0, 1, 2, 3, 0, 1, 2, 3}));
  program.weights = store;
  PassContext context;
  ASSERT_TRUE(Canonicalize(program, {}, context).value());
  EXPECT_THAT(program.ops, IsEmpty());
}

TEST(CanonicalizeIndex, ReadsAtOtherPositionsStay) {
  // A diagonal; positions that descend; positions that are data.
  EXPECT_EQ(Canonized(R"(
    in x f32[4,4]
    i = iota() {shape=[4,1], dim=0, dtype=i64}
    index = concat(i, i) {dim=1}
    y = gather_nd(x, index)
    out y)"),
            "concat 1, gather_nd 1, iota 1");
  EXPECT_EQ(Canonized(R"(
    in x f32[3,4]
    i = iota() {shape=[4], dim=0, dtype=i64}
    three = 3 i64
    p = sub(three, i)
    y = gather(x, p) {dim=1}
    out y)"),
            "constant 1, gather 1, iota 1, sub 1");
}

TEST(CanonicalizeIndex, WhatIsFilledPartByPartIsJoined) {
  EXPECT_EQ(Canonized(R"(
    in a f32[2,3]
    in b f32[4,3]
    zero = 0
    empty = broadcast(zero) {shape=[6,3]}
    i = iota() {shape=[2,1], dim=0, dtype=i64}
    p = iota() {shape=[4,1], dim=0, dtype=i64}
    two = 2 i64
    q = add(p, two)
    first = scatter_nd(empty, i, a)
    y = scatter_nd(first, q, b)
    out y)"),
            "concat 1");
  EXPECT_EQ(Canonized(R"(
    in x f32[6,3]
    in a f32[2,3]
    p = iota() {shape=[2,1], dim=0, dtype=i64}
    one = 1 i64
    q = add(p, one)
    y = scatter_nd(x, q, a)
    out y)"),
            "concat 1, slice 2");
  // Added to what is there; two apart.
  EXPECT_EQ(CountOps(Canonical(R"(
    in x f32[6,3]
    in a f32[2,3]
    p = iota() {shape=[2,1], dim=0, dtype=i64}
    y = scatter_nd(x, p, a) {reduction="add"}
    out y)"),
                     "scatter_nd"),
            1);
  EXPECT_EQ(CountOps(Canonical(R"(
    in x f32[6,3]
    in a f32[2,3]
    p = iota() {shape=[2,1], dim=0, dtype=i64}
    two = 2 i64
    q = mul(p, two)
    y = scatter_nd(x, q, a)
    out y)"),
                     "scatter_nd"),
            1);
}

}  // namespace
}  // namespace asyra
