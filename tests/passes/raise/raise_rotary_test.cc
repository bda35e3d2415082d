#include "passes/raise/raise_rotary.h"

#include "ir/weight_origin.h"
#include "ir/weights/weight_store.h"
#include "tests/passes/transformed.h"

namespace asyra {
namespace {

// Angles computed while the program runs, from frequencies without data.
constexpr std::string_view kTables = R"(
    weight freq f32[1,4,1]
    p = iota() {shape=[1,1,6], dim=2, dtype=i64}
    pf = cast(p) {to=f32}
    prod = matmul(freq, pf)
    ang = transpose(prod) {perm=[0,2,1]}
    both = concat(ang, ang) {dim=-1}
    c3 = cos(both)
    s3 = sin(both)
    )";

std::string Rotated(std::string_view tables, std::string_view x,
                    std::string_view body) {
  return "in x " + std::string(x) + std::string(tables) + std::string(body) +
         "\nout y\n";
}

constexpr std::string_view kHeadsFirst = R"(
    c = reshape(c3) {shape=[1,1,6,8]}
    s = reshape(s3) {shape=[1,1,6,8]}
    xc = mul(x, c)
    lo = slice(x) {dim=3, start=0, stop=4}
    hi = slice(x) {dim=3, start=4, stop=8}
    n = neg(hi)
    r = concat(n, lo) {dim=-1}
    rs = mul(r, s)
    y = add(xc, rs))";

TEST(RaiseRotary, HeadsBeforePositions) {
  Program program =
      Transformed(RaiseRotary, Rotated(kTables, "f32[2,3,6,8]", kHeadsFirst));
  EXPECT_EQ(CountOps(program, "rotary"), 1);
  // Around rotary, and one on each table.
  EXPECT_EQ(CountOps(program, "transpose"), 2 + 2);
  EXPECT_EQ(CountOps(program, "concat"), 0);
  EXPECT_EQ(CountOps(program, "cos"), 1);
  const Op& rotary = OnlyOp(program, "rotary");
  EXPECT_EQ(program.type(rotary.operands[1]).shape(), (Shape{6, 4}));
}

TEST(RaiseRotary, PositionsBeforeHeads) {
  Program program =
      Transformed(RaiseRotary, Rotated(kTables, "f32[2,6,3,8]", R"(
    c = reshape(c3) {shape=[1,6,1,8]}
    s = reshape(s3) {shape=[1,6,1,8]}
    lo = slice(x) {dim=3, start=0, stop=4}
    hi = slice(x) {dim=3, start=4, stop=8}
    n = neg(hi)
    r = concat(n, lo) {dim=3}
    rs = mul(s, r)
    xc = mul(c, x)
    y = add(rs, xc))"));
  EXPECT_EQ(CountOps(program, "rotary"), 1);
  EXPECT_EQ(CountOps(program, "transpose"), 2);  // of the tables
}

TEST(RaiseRotary, TablesThatVaryOverBatches) {
  Program program = Transformed(RaiseRotary, R"(
    in x f32[2,3,6,8]
    in a f32[2,6,4]
    both = concat(a, a) {dim=2}
    c3 = cos(both)
    s3 = sin(both)
    c = reshape(c3) {shape=[2,1,6,8]}
    s = reshape(s3) {shape=[2,1,6,8]}
    lo = slice(x) {dim=3, start=0, stop=4}
    hi = slice(x) {dim=3, start=4, stop=8}
    n = neg(hi)
    r = concat(n, lo) {dim=3}
    rs = mul(s, r)
    xc = mul(c, x)
    y = add(rs, xc)
    out y)");
  const Op& rotary = OnlyOp(program, "rotary");
  EXPECT_EQ(program.type(rotary.operands[1]).shape(), (Shape{2, 6, 4}));
}

TEST(RaiseRotary, WrittenOnHalves) {
  EXPECT_EQ(Ops(RaiseRotary, R"(
    in x f32[2,6,3,8]
    in c f32[6,1,4]
    in s f32[6,1,4]
    lo = slice(x) {dim=3, start=0, stop=4}
    hi = slice(x) {dim=3, start=4, stop=8}
    a = mul(lo, c)
    b = mul(hi, s)
    first = sub(a, b)
    d = mul(hi, c)
    e = mul(lo, s)
    second = add(d, e)
    y = concat(first, second) {dim=3}
    out y)"),
            "reshape 2, rotary 1");
}

TEST(RaiseRotary, OnlyTheFirstElements) {
  Program program = Transformed(RaiseRotary, R"(
    in x f32[2,3,6,12]
    in a f32[6,4]
    both = concat(a, a) {dim=1}
    c = cos(both)
    s = sin(both)
    z = slice(x) {dim=3, start=0, stop=8}
    rest = slice(x) {dim=3, start=8, stop=12}
    lo = slice(z) {dim=3, start=0, stop=4}
    hi = slice(z) {dim=3, start=4, stop=8}
    n = neg(hi)
    r = concat(n, lo) {dim=3}
    rs = mul(s, r)
    xc = mul(c, z)
    rot = add(rs, xc)
    y = concat(rot, rest) {dim=3}
    out y)");
  EXPECT_EQ(OpCounts(program), "cos 1, rotary 1, sin 1, transpose 2");
}

TEST(RaiseRotary, KnownTablesBecomeWeights) {
  Program program =
      ASYRA_VALUE(ParseUntyped(Rotated(kTables, "f32[2,3,6,8]", kHeadsFirst)));
  auto store = std::make_shared<WeightStore>();
  store->Set("freq",
             Tensor::FromDoubles(DType::kF32, {1, 4, 1}, {1, 0.3, 0.1, 0.03}));
  program.weights = store;
  Program after = program;
  PassContext context;
  ASSERT_TRUE(RaiseRotary(after, {}, context).value());
  EXPECT_EQ(OpCounts(after), "rotary 1, transpose 2");
  EXPECT_EQ(after.weights->size(), 2u);
  EXPECT_TRUE(SameMeaning(program, after, 3, 1e-5).ok());
  // Users know the tensor of the file, and passes that it is none of theirs.
  for (const Input& input : after.inputs) {
    if (!IsWeight(input)) continue;
    EXPECT_EQ(UserName(after, input), "freq");
    EXPECT_TRUE(input.origin->made);
  }
}

// Tables of no tensor of the file have names of their own.
TEST(RaiseRotary, TablesOfConstantsAreNamedAsTheyAre) {
  std::string text = Rotated(kTables, "f32[2,3,6,8]", kHeadsFirst);
  text.replace(text.find("weight freq f32[1,4,1]"), 22,
               "freq = constant() {value=f32[1,4,1](1, 0.3, 0.1, 0.03)}");
  Program program = Transformed(RaiseRotary, text);
  int tables = 0;
  for (const Input& input : program.inputs) {
    if (!IsWeight(input)) continue;
    EXPECT_EQ(UserName(program, input), program.value_name(input.value));
    EXPECT_TRUE(input.origin->made);
    ++tables;
  }
  EXPECT_EQ(tables, 2);
}

// Pairs (2 i, 2 i + 1), as GPT-J and Cohere turn them; `table` makes cos "c"
// and sin "s" of the angles "a", each twice in a row.
std::string Interleaved(std::string_view table) {
  return R"(
    in x f32[2,6,3,8]
    in a f32[6,4]
    )" + std::string(table) +
         R"(
    even = slice(x) {dim=3, start=0, stop=8, step=2}
    odd = slice(x) {dim=3, start=1, stop=8, step=2}
    n = neg(odd)
    n1 = reshape(n) {shape=[2,6,3,4,1]}
    e1 = reshape(even) {shape=[2,6,3,4,1]}
    both = concat(n1, e1) {dim=4}
    r = reshape(both) {shape=[2,6,3,8]}
    rs = mul(r, s)
    xc = mul(x, c)
    y = add(xc, rs)
    out y)";
}

constexpr std::string_view kTwiceInARow = R"(
    a1 = reshape(a) {shape=[6,4,1]}
    a2 = broadcast(a1) {shape=[6,4,2]}
    ang = reshape(a2) {shape=[6,1,8]}
    c = cos(ang)
    s = sin(ang))";

TEST(RaiseRotary, Interleaved) {
  Program program = Transformed(RaiseRotary, Interleaved(kTwiceInARow));
  EXPECT_EQ(OpCounts(program), "cos 1, rotary 1, sin 1");
  const Op& rotary = OnlyOp(program, "rotary");
  EXPECT_TRUE(rotary.attrs.Bool("interleaved"));
  EXPECT_EQ(program.type(rotary.operands[1]).shape(), (Shape{6, 4}));
  // Angles repeated by joining them with themselves.
  EXPECT_EQ(Ops(RaiseRotary, Interleaved(R"(
    a1 = reshape(a) {shape=[6,4,1]}
    a2 = concat(a1, a1) {dim=2}
    ang = reshape(a2) {shape=[6,1,8]}
    c = cos(ang)
    s = sin(ang))")),
            "cos 1, rotary 1, sin 1");
}

TEST(RaiseRotary, InterleavedHeadsBeforePositions) {
  EXPECT_EQ(Ops(RaiseRotary, R"(
    in x f32[2,6,3,8]
    in a f32[6,4]
    xt = transpose(x) {perm=[0,2,1,3]}
    a1 = reshape(a) {shape=[6,4,1]}
    a2 = broadcast(a1) {shape=[6,4,2]}
    ang = reshape(a2) {shape=[1,1,6,8]}
    c = cos(ang)
    s = sin(ang)
    even = slice(xt) {dim=3, start=0, stop=8, step=2}
    odd = slice(xt) {dim=3, start=1, stop=8, step=2}
    n = neg(odd)
    n1 = reshape(n) {shape=[2,3,6,4,1]}
    e1 = reshape(even) {shape=[2,3,6,4,1]}
    both = concat(n1, e1) {dim=4}
    r = reshape(both) {shape=[2,3,6,8]}
    rs = mul(r, s)
    xc = mul(xt, c)
    rot = add(xc, rs)
    y = transpose(rot) {perm=[0,2,1,3]}
    out y)"),
            "cos 1, rotary 1, sin 1");
}

// As complex numbers are multiplied.
TEST(RaiseRotary, WrittenOnPairs) {
  constexpr std::string_view kPairs = R"(
    in x f32[2,6,3,8]
    in c f32[6,1,4]
    in s f32[6,1,4]
    z = reshape(x) {shape=[2,6,3,4,2]}
    re1 = slice(z) {dim=4, start=0, stop=1}
    im1 = slice(z) {dim=4, start=1, stop=2}
    re = reshape(re1) {shape=[2,6,3,4]}
    im = reshape(im1) {shape=[2,6,3,4]}
    rc = mul(re, c)
    is = mul(im, s)
    first = sub(rc, is)
    ic = mul(im, c)
    rs = mul(re, s)
    second = add(ic, rs)
    f1 = reshape(first) {shape=[2,6,3,4,1]}
    s1 = reshape(second) {shape=[2,6,3,4,1]}
    both = concat(f1, s1) {dim=4}
    y = reshape(both) {shape=[2,6,3,8]}
    out y)";
  Program program = Transformed(RaiseRotary, kPairs);
  EXPECT_EQ(OpCounts(program), "reshape 2, rotary 1");
  EXPECT_TRUE(OnlyOp(program, "rotary").attrs.Bool("interleaved"));
}

// x [.., heads, n, 2] right off the projection.
TEST(RaiseRotary, InterleavedBySplittingTheLastDimension) {
  EXPECT_EQ(Ops(RaiseRotary, R"(
    in h f32[2,6,24]
    in a f32[6,4]
    x = reshape(h) {shape=[2,6,3,8]}
    a1 = reshape(a) {shape=[6,4,1]}
    a2 = broadcast(a1) {shape=[6,4,2]}
    ang = reshape(a2) {shape=[6,1,8]}
    c = cos(ang)
    s = sin(ang)
    z = reshape(x) {shape=[2,6,3,4,2]}
    e1 = slice(z) {dim=4, start=0, stop=1}
    odd = slice(z) {dim=4, start=1, stop=2}
    o = reshape(odd) {shape=[2,6,3,4]}
    n = neg(o)
    n1 = reshape(n) {shape=[2,6,3,4,1]}
    both = concat(n1, e1) {dim=4}
    r = reshape(both) {shape=[2,6,3,8]}
    rs = mul(r, s)
    xc = mul(x, c)
    y = add(xc, rs)
    out y)"),
            "cos 1, reshape 1, rotary 1, sin 1");
}

// DeepSeek's: pairs turn, and leave as halves.
TEST(RaiseRotary, PairsThatBecomeHalves) {
  EXPECT_EQ(Ops(RaiseRotary, R"(
    in x f32[2,6,3,8]
    in c f32[6,1,4]
    in s f32[6,1,4]
    even = slice(x) {dim=3, start=0, stop=8, step=2}
    odd = slice(x) {dim=3, start=1, stop=8, step=2}
    a = mul(even, c)
    b = mul(odd, s)
    first = sub(a, b)
    d = mul(odd, c)
    e = mul(even, s)
    second = add(d, e)
    y = concat(first, second) {dim=3}
    out y)"),
            "concat 1, reshape 2, rotary 1, slice 2");
}

TEST(RaiseRotary, InterleavedNearMissesStay) {
  // The table repeats in halves, the pairs do not.
  EXPECT_EQ(CountOps(Transformed(RaiseRotary, Interleaved(R"(
    ah = concat(a, a) {dim=1}
    ang = reshape(ah) {shape=[6,1,8]}
    c = cos(ang)
    s = sin(ang))")),
                     "rotary"),
            0);
  // Elements of two tables take turns.
  EXPECT_EQ(CountOps(Transformed(RaiseRotary, Interleaved(R"(
    in b f32[6,4]
    a1 = reshape(a) {shape=[6,4,1]}
    b1 = reshape(b) {shape=[6,4,1]}
    a2 = concat(a1, b1) {dim=2}
    ang = reshape(a2) {shape=[6,1,8]}
    c = cos(ang)
    s = sin(ang))")),
                     "rotary"),
            0);
}

TEST(RaiseRotary, ManyDimensionsOfHeads) {
  // Groups and the heads of a group; heads that are repeated afterwards.
  EXPECT_EQ(Ops(RaiseRotary, R"(
    in x f32[2,6,3,1,8]
    in a f32[6,4]
    ah = concat(a, a) {dim=1}
    ang = reshape(ah) {shape=[6,1,8]}
    c = cos(ang)
    s = sin(ang)
    rep = broadcast(x) {shape=[2,6,3,2,8]}
    z = reshape(rep) {shape=[2,6,6,8]}
    lo = slice(z) {dim=3, start=0, stop=4}
    hi = slice(z) {dim=3, start=4, stop=8}
    n = neg(hi)
    r = concat(n, lo) {dim=3}
    rs = mul(r, s)
    xc = mul(z, c)
    y = add(xc, rs)
    out y)"),
            "broadcast 1, cos 1, reshape 3, rotary 1, sin 1");
  // None: the one key head of multi-query attention.
  EXPECT_EQ(Ops(RaiseRotary, R"(
    in x f32[2,6,8]
    in a f32[6,4]
    ang = concat(a, a) {dim=1}
    c = cos(ang)
    s = sin(ang)
    lo = slice(x) {dim=2, start=0, stop=4}
    hi = slice(x) {dim=2, start=4, stop=8}
    n = neg(hi)
    r = concat(n, lo) {dim=2}
    rs = mul(r, s)
    xc = mul(x, c)
    y = add(xc, rs)
    out y)"),
            "cos 1, reshape 2, rotary 1, sin 1");
}

TEST(RaiseRotary, PartOfAPartTurns) {
  // Query, key and value side by side; of the key only the first half turns.
  EXPECT_EQ(Ops(RaiseRotary, R"(
    in qkv f32[2,6,3,24]
    in a f32[6,2]
    ah = concat(a, a) {dim=1}
    ang = reshape(ah) {shape=[6,1,4]}
    c = cos(ang)
    s = sin(ang)
    k = slice(qkv) {dim=3, start=8, stop=16}
    z = slice(k) {dim=3, start=0, stop=4}
    rest = slice(k) {dim=3, start=4, stop=8}
    lo = slice(z) {dim=3, start=0, stop=2}
    hi = slice(z) {dim=3, start=2, stop=4}
    n = neg(hi)
    r = concat(n, lo) {dim=3}
    rs = mul(r, s)
    zc = mul(z, c)
    rot = add(zc, rs)
    y = concat(rot, rest) {dim=3}
    out y)"),
            "cos 1, rotary 1, sin 1, slice 1");
}

TEST(RaiseRotary, OneAngleForAllPairsStays) {
  EXPECT_EQ(CountOps(Transformed(RaiseRotary, R"(
    in x f32[2,6,3,8]
    in c f32[6,1,1]
    in s f32[6,1,1]
    lo = slice(x) {dim=3, start=0, stop=4}
    hi = slice(x) {dim=3, start=4, stop=8}
    a = mul(lo, c)
    b = mul(hi, s)
    first = sub(a, b)
    d = mul(hi, c)
    e = mul(lo, s)
    second = add(d, e)
    y = concat(first, second) {dim=3}
    out y)"),
                     "rotary"),
            0);
}

TEST(RaiseRotary, NearMissesStay) {
  // The wrong half is negated.
  EXPECT_EQ(CountOps(Transformed(RaiseRotary, Rotated(kTables, "f32[2,3,6,8]",
                                                      R"(
    c = reshape(c3) {shape=[1,1,6,8]}
    s = reshape(s3) {shape=[1,1,6,8]}
    xc = mul(x, c)
    lo = slice(x) {dim=3, start=0, stop=4}
    hi = slice(x) {dim=3, start=4, stop=8}
    n = neg(lo)
    r = concat(hi, n) {dim=-1}
    rs = mul(r, s)
    y = add(xc, rs))")),
                     "rotary"),
            0);
  // The halves of the table are not known to be equal.
  EXPECT_EQ(CountOps(Transformed(RaiseRotary, R"(
    in x f32[2,3,6,8]
    in c f32[6,8]
    in s f32[6,8]
    xc = mul(x, c)
    lo = slice(x) {dim=3, start=0, stop=4}
    hi = slice(x) {dim=3, start=4, stop=8}
    n = neg(hi)
    r = concat(n, lo) {dim=-1}
    rs = mul(r, s)
    y = add(xc, rs)
    out y)"),
                     "rotary"),
            0);
  // One table varies over heads.
  EXPECT_EQ(CountOps(Transformed(RaiseRotary, R"(
    in x f32[2,3,6,8]
    in a f32[3,6,4]
    c = concat(a, a) {dim=2}
    xc = mul(x, c)
    lo = slice(x) {dim=3, start=0, stop=4}
    hi = slice(x) {dim=3, start=4, stop=8}
    n = neg(hi)
    r = concat(n, lo) {dim=-1}
    rs = mul(r, c)
    y = add(xc, rs)
    out y)"),
                     "rotary"),
            0);
}

}  // namespace
}  // namespace asyra
