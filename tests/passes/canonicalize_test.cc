#include "passes/canonicalize.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/printer.h"
#include "ir/support/check.h"
#include "ir/verifier.h"
#include "ir/weight_store.h"
#include "tests/support/untyped.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Canonicalizes, and checks that the result verifies, means the same and is
// left alone by a second run.
Program Canonical(std::string_view text) {
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

std::string Canonized(std::string_view text) {
  return OpCounts(Canonical(text));
}

TEST(Canonicalize, DropsDeadOpsAndRepeatsButKeepsNames) {
  Program program = Canonical(R"(
    in x f32[4,6]
    a = exp(x)
    b = exp(x)
    dead = log(x)
    y = add(a, b)
    out y)");
  EXPECT_EQ(OpCounts(program), "add 1, exp 1");
  EXPECT_EQ(program.value_name(program.outputs[0].value), "y");
}

TEST(Canonicalize, OutputsKeepTheirNamesWhenTheirOpsVanish) {
  Program program = Canonical(R"(
    in x f32[4,6]
    zero = 0
    a = exp(x)
    logits = add(a, zero)
    out logits)");
  EXPECT_EQ(OpCounts(program), "exp 1");
  EXPECT_EQ(program.value_name(program.outputs[0].value), "logits");
}

TEST(Canonicalize, AnInputMayBecomeAnOutput) {
  Program program = Canonical(R"(
    in x f32[4,6]
    one = 1
    y = mul(one, x)
    out y)");
  EXPECT_THAT(program.ops, IsEmpty());
}

TEST(Canonicalize, UnusedDataInputsStayUnusedWeightsGo) {
  Program program = Canonical(R"(
    in x f32[4]
    in unused f32[4]
    weight w f32[4]
    y = exp(x)
    out y)");
  ASSERT_EQ(program.inputs.size(), 2u);
  EXPECT_EQ(program.value_name(program.inputs[1].value), "unused");
}

TEST(Canonicalize, RemovesIdentities) {
  EXPECT_EQ(Canonized(R"(
    in x f32[4,6]
    a = reshape(x) {shape=[4,6]}
    b = transpose(a) {perm=[0,1]}
    c = cast(b) {to=f32}
    d = slice(c) {dim=-1, start=0, stop=6}
    e = concat(d) {dim=0}
    f = broadcast(e) {shape=[4,6]}
    one = 1
    g = div(f, one)
    zero = 0
    h = sub(g, zero)
    i = neg(h)
    j = neg(i)
    y = exp(j)
    out y)"),
            "exp 1");
}

TEST(Canonicalize, DoesNotRemoveWhatOnlyLooksLikeAnIdentity) {
  // 0 - x; broadcasting by + 0; a slice backwards; a lossy cast.
  EXPECT_EQ(Canonized(R"(
    in x f32[4,6]
    zero = 0
    a = sub(zero, x)
    zeros = broadcast(zero) {shape=[2,1,1]}
    b = add(a, zeros)
    c = slice(b) {dim=1, start=3, stop=-1, step=-1}
    d = cast(c) {to=bf16}
    e = cast(d) {to=f32}
    out e)"),
            "broadcast 1, cast 2, constant 1, slice 1, sub 1");
}

TEST(Canonicalize, FoldsConstants) {
  Program program = Canonical(R"(
    in x f32[4]
    a = 2
    b = 3
    c = mul(a, b)
    y = mul(x, c)
    out y)");
  EXPECT_EQ(OpCounts(program), "constant 1, mul 1");
  EXPECT_EQ(program.ops[0].attrs.Get<Tensor>("value").Get(0), 6);
}

TEST(Canonicalize, KnowsUniformValuesOfAnySize) {
  // Position arithmetic of 8192 positions comes to "all true".
  EXPECT_EQ(Canonized(R"(
    in x f32[2,16384]
    p = iota() {shape=[1,16384], dim=1, dtype=i64}
    one = 1 i64
    first = slice(p) {dim=1, start=0, stop=1}
    before = sub(first, one)
    all = concat(before, p) {dim=-1}
    a = slice(all) {dim=1, start=0, stop=16384}
    b = slice(all) {dim=1, start=1, stop=16385}
    step = sub(b, a)
    same = equal(step, one)
    other = not(same)
    n = cast(other) {to=i64}
    document = cumsum(n) {dim=-1}
    f = cast(document) {to=f32}
    y = add(x, f)
    out y)"),
            "");
}

TEST(Canonicalize, KeepsIndicesThatAreOutOfRange) {
  Program program = ASYRA_VALUE(ParseUntyped(R"(
    c = constant() {value=f32[3](1, 2, 3)}
    i = constant() {value=i64[1](7)}
    y = gather(c, i) {dim=0}
    out y)"));
  PassContext context;
  ASSERT_TRUE(Canonicalize(program, {}, context).ok());
  EXPECT_EQ(CountOps(program, "gather"), 1);
}

TEST(Canonicalize, MergesViews) {
  EXPECT_EQ(Canonized(R"(
    in x f32[4,6,2]
    a = transpose(x) {perm=[1,0,2]}
    b = transpose(a) {perm=[-2,0,-1]}
    c = reshape(b) {shape=[48]}
    d = reshape(c) {shape=[4,6,2]}
    y = exp(d)
    out y)"),
            "exp 1");
  EXPECT_EQ(Canonized(R"(
    in x f32[4,6]
    in y f32[4,6]
    a = concat(x, y) {dim=1}
    b = slice(a) {dim=1, start=7, stop=11}
    c = slice(b) {dim=-1, start=1, stop=2}
    out c)"),
            "slice 1");
}

TEST(Canonicalize, ASliceAcrossPartsStays) {
  EXPECT_EQ(Canonized(R"(
    in x f32[4,6]
    in y f32[4,6]
    a = concat(x, y) {dim=1}
    b = slice(a) {dim=1, start=5, stop=7}
    out b)"),
            "concat 1, slice 1");
}

TEST(Canonicalize, TransposedOperandsBecomeFlags) {
  Program program = Canonical(R"(
    in x f32[2,3,4]
    weight w f32[5,4]
    t = transpose(w) {perm=[1,0]}
    y = matmul(x, t)
    out y)");
  ASSERT_EQ(OpCounts(program), "matmul 1");
  EXPECT_TRUE(program.ops[0].attrs.Bool("transpose_b"));
}

TEST(Canonicalize, ReshapeAroundLinearLayersVanishes) {
  EXPECT_EQ(Canonized(R"(
    in x f32[2,3,4]
    weight w f32[4,8]
    weight b f32[8]
    weight v f32[8,4]
    r = reshape(x) {shape=[6,4]}
    m = matmul(r, w)
    a = add(m, b)
    g = gelu(a)
    n = matmul(g, v)
    y = reshape(n) {shape=[2,3,4]}
    out y)"),
            "add 1, gelu 1, matmul 2");
}

TEST(Canonicalize, TransposeBetweenMergeAndSplitOfBatchAndHeads) {
  EXPECT_EQ(Canonized(R"(
    in q f32[2,4,3,8]
    in k f32[2,4,3,8]
    a = reshape(k) {shape=[8,3,8]}
    b = transpose(a) {perm=[0,2,1]}
    c = reshape(b) {shape=[2,4,8,3]}
    s = 0.5
    d = mul(c, s)
    y = matmul(q, d)
    out y)"),
            "constant 1, matmul 1, mul 1");
}

TEST(Canonicalize, BatchedProductsOfMergedBatches) {
  EXPECT_EQ(Canonized(R"(
    in q f32[2,4,3,8]
    in k f32[2,4,3,8]
    a = reshape(q) {shape=[8,3,8]}
    b = reshape(k) {shape=[8,3,8]}
    t = transpose(b) {perm=[0,2,1]}
    m = matmul(a, t)
    p = softmax(m)
    y = reshape(p) {shape=[2,4,3,3]}
    out y)"),
            "matmul 1, softmax 1");
}

TEST(Canonicalize, HeadsThatAreSplitAndMergedDifferentlyStay) {
  EXPECT_EQ(Canonized(R"(
    in x f32[2,3,8]
    weight w f32[8,8]
    h = reshape(x) {shape=[2,3,4,2]}
    t = transpose(h) {perm=[0,2,1,3]}
    r = reshape(t) {shape=[2,3,8]}
    y = matmul(r, w)
    out y)"),
            "matmul 1, reshape 2, transpose 1");
}

TEST(Canonicalize, WeightsThatAreOnesTodayStay) {
  Program program = ASYRA_VALUE(ParseUntyped(R"(
    in x f32[3,20]
    weight w f32[20]
    y = mul(x, w)
    out y)"));
  auto store = std::make_shared<WeightStore>();
  std::vector<double> ones(20, 1.0);
  store->Set("w", Tensor::FromDoubles(DType::kF32, {20}, ones));
  program.weights = store;
  PassContext context;
  EXPECT_FALSE(Canonicalize(program, {}, context).value());
  EXPECT_EQ(OpCounts(program), "mul 1");
}

TEST(Canonicalize, ReadsAtKnownPositionsAreSlices) {
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

TEST(Canonicalize, ReadsOfFlattenedRows) {
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

TEST(Canonicalize, StoredPositionsUnderAnotherShape) {
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

TEST(Canonicalize, WhatIsFilledPartByPartIsJoined) {
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

TEST(Canonicalize, TransposesTakeInMovedOnes) {
  // [2,6,1,4] -> [2,1,6,4] -> [4,1,6,2], and back to where it was.
  EXPECT_EQ(Canonized(R"(
    in x f32[2,6,1,4]
    r = reshape(x) {shape=[2,1,6,4]}
    t = transpose(r) {perm=[3,1,2,0]}
    e = exp(t)
    y = transpose(e) {perm=[3,2,1,0]}
    out y)"),
            "exp 1");
}

TEST(Canonicalize, JoinsATransposeAndABroadcastOne) {
  EXPECT_EQ(Canonized(R"(
    in a f32[2,4,3]
    in b f32[2,1,5]
    at = transpose(a) {perm=[2,1,0]}
    bt = transpose(b) {perm=[2,1,0]}
    bb = broadcast(bt) {shape=[5,4,2]}
    c = concat(at, bb) {dim=0}
    y = transpose(c) {perm=[2,1,0]}
    out y)"),
            "broadcast 1, concat 1");
}

TEST(Canonicalize, RowsWithDimensionsOfOneTimesAMatrix) {
  EXPECT_EQ(Canonized(R"(
    in x f32[2,3,4]
    weight w f32[4,8]
    x1 = reshape(x) {shape=[2,1,3,4]}
    m = matmul(x1, w)
    y = reshape(m) {shape=[2,3,2,4]}
    out y)"),
            "matmul 1, reshape 1");
}

TEST(Canonicalize, DropsPartsWithoutElements) {
  EXPECT_EQ(Canonized(R"(
    in x f32[2,4]
    e = slice(x) {dim=1, start=4, stop=4}
    c = concat(x, e) {dim=1}
    y = exp(c)
    out y)"),
            "exp 1");
}

TEST(Canonicalize, ReadsAtOtherPositionsStay) {
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

TEST(Canonicalize, TransposesMoveBehindRowsReductionsAndJoins) {
  // A norm of queries that were transposed, written out.
  EXPECT_EQ(Canonized(R"(
    in x f32[2,3,4,6]
    weight w f32[6]
    t = transpose(x) {perm=[0,2,1,3]}
    sq = mul(t, t)
    mean = reduce_mean(sq) {dims=[3]}
    r = rsqrt(mean)
    n = mul(t, r)
    s = mul(n, w)
    lo = slice(s) {dim=3, start=0, stop=3}
    hi = slice(s) {dim=3, start=3, stop=6}
    c = concat(hi, lo) {dim=3}
    y = transpose(c) {perm=[0,2,1,3]}
    out y)"),
            "concat 1, mul 3, reduce_mean 1, rsqrt 1, slice 2");
  EXPECT_EQ(Canonized(R"(
    in x f32[2,3,4]
    t = transpose(x) {perm=[2,0,1]}
    m = reduce_max(t) {dims=[1], keep=false}
    p = softmax(t) {dim=0}
    q = transpose(p) {perm=[1,2,0]}
    out m
    out q)"),
            "reduce_max 1, softmax 1, transpose 1");
  // Values that take turns along the last dimension.
  EXPECT_EQ(Canonized(R"(
    in x f32[2,3,4,6]
    in z f32[2,3,4,6]
    xt = transpose(x) {perm=[0,2,1,3]}
    zt = transpose(z) {perm=[0,2,1,3]}
    x1 = reshape(xt) {shape=[2,4,3,6,1]}
    z1 = reshape(zt) {shape=[2,4,3,6,1]}
    c = concat(x1, z1) {dim=4}
    f = reshape(c) {shape=[2,4,3,12]}
    y = transpose(f) {perm=[0,2,1,3]}
    out y)"),
            "concat 1, reshape 3");
}

TEST(Canonicalize, TransposesStayWhereAnOperandWouldHaveToMove) {
  EXPECT_EQ(Canonized(R"(
    in x f32[2,3,4]
    in z f32[3,2]
    t = transpose(x) {perm=[2,1,0]}
    y = add(t, z)
    out y)"),
            "add 1, transpose 1");
}

TEST(Canonicalize, RepeatedHeadsMoveBehindSlicesAndJoins) {
  EXPECT_EQ(Canonized(R"(
    in x f32[2,3,1,4]
    b = broadcast(x) {shape=[2,3,5,4]}
    h = reshape(b) {shape=[2,15,4]}
    lo = slice(h) {dim=2, start=0, stop=2}
    hi = slice(h) {dim=2, start=2, stop=4}
    n = neg(hi)
    c = concat(n, lo) {dim=2}
    out c)"),
            "broadcast 1, concat 1, neg 1, reshape 1, slice 2");
}

TEST(Canonicalize, LongChainsTakeLinearTime) {
  std::string text = "in x f32[4]\nv0 = exp(x)\n";
  for (int i = 1; i < 15000; ++i) {
    text += fmt::format("v{} = {}(v{})\n", i, i % 3 ? "tanh" : "exp", i - 1);
  }
  Program program = ASYRA_VALUE(ParseUntyped(text + "out v14999"));
  PassContext context;
  EXPECT_FALSE(Canonicalize(program, {}, context).value());
  EXPECT_EQ(program.ops.size(), 15000u);
}

}  // namespace
}  // namespace asyra
