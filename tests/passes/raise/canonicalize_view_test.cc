// Slices, reshapes and transposes: merged, moved, taken into the ops that read
// them.
#include "tests/passes/canonical.h"

namespace asyra {
namespace {

TEST(CanonicalizeView, MergesViews) {
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

TEST(CanonicalizeView, ASliceAcrossPartsStays) {
  EXPECT_EQ(Canonized(R"(
    in x f32[4,6]
    in y f32[4,6]
    a = concat(x, y) {dim=1}
    b = slice(a) {dim=1, start=5, stop=7}
    out b)"),
            "concat 1, slice 1");
}

TEST(CanonicalizeView, TransposedOperandsBecomeFlags) {
  Program program = Canonical(R"(
    in x f32[2,3,4]
    weight w f32[5,4]
    t = transpose(w) {perm=[1,0]}
    y = matmul(x, t)
    out y)");
  ASSERT_EQ(OpCounts(program), "matmul 1");
  EXPECT_TRUE(program.ops[0].attrs.Bool("transpose_b"));
}

TEST(CanonicalizeView, ReshapeAroundLinearLayersVanishes) {
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

TEST(CanonicalizeView, TransposeBetweenMergeAndSplitOfBatchAndHeads) {
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

TEST(CanonicalizeView, BatchedMatmulsOfMergedBatches) {
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

TEST(CanonicalizeView, HeadsThatAreSplitAndMergedDifferentlyStay) {
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

TEST(CanonicalizeView, TransposesTakeInMovedOnes) {
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

TEST(CanonicalizeView, JoinsATransposeAndABroadcastOne) {
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

TEST(CanonicalizeView, RowsWithDimensionsOfOneTimesAMatrix) {
  EXPECT_EQ(Canonized(R"(
    in x f32[2,3,4]
    weight w f32[4,8]
    x1 = reshape(x) {shape=[2,1,3,4]}
    m = matmul(x1, w)
    y = reshape(m) {shape=[2,3,2,4]}
    out y)"),
            "matmul 1, reshape 1");
}

TEST(CanonicalizeView, DropsPartsWithoutElements) {
  EXPECT_EQ(Canonized(R"(
    in x f32[2,4]
    e = slice(x) {dim=1, start=4, stop=4}
    c = concat(x, e) {dim=1}
    y = exp(c)
    out y)"),
            "exp 1");
}

TEST(CanonicalizeView, TransposesMoveBehindRowsReductionsAndJoins) {
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

TEST(CanonicalizeView, TransposesStayWhereAnOperandWouldHaveToMove) {
  EXPECT_EQ(Canonized(R"(
    in x f32[2,3,4]
    in z f32[3,2]
    t = transpose(x) {perm=[2,1,0]}
    y = add(t, z)
    out y)"),
            "add 1, transpose 1");
}

TEST(CanonicalizeView, RepeatedHeadsMoveBehindSlicesAndJoins) {
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

}  // namespace
}  // namespace asyra
