#include "passes/raise/raise_attention.h"

#include "gmock/gmock.h"
#include "ir/weights/weight_store.h"
#include "tests/passes/transformed.h"

namespace asyra {
namespace {

// q, k and v of 4 heads over 5 queries and keys; `mask` is what turns the
// scores "s" into "m".
std::string Attention(std::string_view mask) {
  return R"(
    in q f32[2,5,4,8]
    in k f32[2,5,4,8]
    in v f32[2,5,4,8]
    zero = 0
    big = -3.4e38
    i = iota() {shape=[1,1,5,1], dim=2, dtype=i64}
    j = iota() {shape=[1,1,1,5], dim=3, dtype=i64}
    qt = transpose(q) {perm=[0,2,1,3]}
    kt = transpose(k) {perm=[0,2,3,1]}
    vt = transpose(v) {perm=[0,2,1,3]}
    c = 0.35
    raw = matmul(qt, kt)
    s = mul(raw, c)
    )" + std::string(mask) +
         R"(
    p = softmax(m)
    o = matmul(p, vt)
    y = transpose(o) {perm=[0,2,1,3]}
    out y
    )";
}

Program Raised(std::string_view text) {
  return Transformed(RaiseAttention, text);
}

// As GPT-OSS: a learnt score a head beside those of the keys.
std::string WithSinks(std::string_view weights) {
  std::string text = Attention(R"(
    later = less(i, j)
    m = select(later, big, s)
    weight sinks f32[4]
    s4 = reshape(sinks) {shape=[1,4,1,1]}
    sb = broadcast(s4) {shape=[2,4,5,1]}
    all = concat(m, sb) {dim=3}
    most = reduce_max(all) {dims=[3]})");
  std::string_view plain = "p = softmax(m)";
  return text.replace(text.find(plain), plain.size(), weights);
}

TEST(RaiseAttention, Sinks) {
  for (std::string_view weights : {R"(
    w = softmax(all)
    p = slice(w) {dim=3, start=0, stop=5})",
                                   R"(
    centred = sub(all, most)
    w = softmax(centred)
    p = slice(w) {dim=3, start=0, stop=5})"}) {
    Program program = Raised(WithSinks(weights));
    const Op& attention = OnlyOp(program, "attention");
    EXPECT_TRUE(attention.attrs.Bool("causal"));
    ASSERT_EQ(attention.operands.size(), 4u);
    EXPECT_EQ(program.type(attention.operands[3]).shape(), Shape{4});
    EXPECT_EQ(CountOps(program, "softmax"), 0);
  }
  // The weights of other keys than the first.
  Program program = Raised(WithSinks(R"(
    w = softmax(all)
    p = slice(w) {dim=3, start=1, stop=6})"));
  EXPECT_EQ(CountOps(program, "attention"), 0);
}

TEST(RaiseAttention, SaysWhyOpsStay) {
  Program program = ASYRA_VALUE(ParseUntyped(Attention(R"(
    in pad bool[2,1,1,5]
    lowest = -3.4028234663852886e38
    ninf = -inf
    b = select(pad, zero, ninf)
    added = add(s, b)
    m = max(added, lowest))")));
  PassContext context;
  ASYRA_CHECK_OK(Canonicalize(program, {}, context).status());
  context.remarks.clear();
  EXPECT_FALSE(ASYRA_VALUE(RaiseAttention(program, {}, context)));
  // Not as the pass's own summary, which reports leave out where nothing
  // changed.
  EXPECT_THAT(context.remarks,
              testing::Contains(testing::AllOf(
                  testing::StartsWith("%"),
                  testing::HasSubstr("stays softmax and matmuls, not one "
                                     "attention: scores of -inf"))));
}

// The scores that they leave are of two numbers.
TEST(RaiseAttention, SaysWhichNumbersHideKeys) {
  Program program = ASYRA_VALUE(ParseUntyped(Attention(R"(
    in pad bool[2,1,1,5]
    low = -1e9
    ninf = -inf
    seen = less_equal(j, i)
    a = select(seen, s, low)
    m = select(pad, a, ninf))")));
  PassContext context;
  ASYRA_CHECK_OK(Canonicalize(program, {}, context).status());
  context.remarks.clear();
  EXPECT_FALSE(ASYRA_VALUE(RaiseAttention(program, {}, context)));
  EXPECT_THAT(context.remarks,
              testing::Contains(testing::HasSubstr(
                  "keys are hidden by -1e+09 and by -inf, the op has one "
                  "number for them")));
}

TEST(RaiseAttention, WithoutMask) {
  Program program = Raised(Attention("m = reshape(s) {shape=[2,4,5,5]}"));
  ASSERT_EQ(OpCounts(program), "attention 1");
  const Op& op = program.ops[0];
  EXPECT_NEAR(op.attrs.Float("scale"), 0.35, 1e-6);
  EXPECT_FALSE(op.attrs.Bool("causal"));
}

TEST(RaiseAttention, CausalMaskFromPositions) {
  Program program = Raised(Attention(R"(
    seen = less_equal(j, i)
    b = select(seen, zero, big)
    m = add(s, b))"));
  ASSERT_EQ(OpCounts(program), "attention 1");
  EXPECT_TRUE(program.ops[0].attrs.Bool("causal"));
  EXPECT_EQ(program.ops[0].attrs.Int("window"), 0);
}

TEST(RaiseAttention, ScaleAroundTheMask) {
  // The mask is divided as well; it still hides.
  Program program = Raised(Attention(R"(
    seen = less_equal(j, i)
    b = select(seen, zero, big)
    added = add(s, b)
    four = 4
    m = div(added, four))"));
  ASSERT_EQ(OpCounts(program), "attention 1");
  EXPECT_TRUE(program.ops[0].attrs.Bool("causal"));
  EXPECT_NEAR(program.ops[0].attrs.Float("scale"), 0.35 / 4, 1e-6);
  // A bias that does not hide, as ALiBi is: it stays, divided.
  EXPECT_EQ(OpCounts(Raised(Attention(R"(
    in bias f32[4,1,5]
    added = add(s, bias)
    four = 4
    m = div(added, four))"))),
            "attention 1, constant 1, mul 1, reshape 1");
}

TEST(RaiseAttention, ClampToTheLowestNumber) {
  // A mask that leaves scores finite is all that max could meet.
  EXPECT_EQ(OpCounts(Raised(Attention(R"(
    lowest = -3.4028234663852886e38
    seen = less_equal(j, i)
    b = select(seen, zero, lowest)
    added = add(s, b)
    m = max(added, lowest))"))),
            "attention 1");
  // Rows that see nothing share evenly here, and under attention give 0.
  EXPECT_EQ(CountOps(Raised(Attention(R"(
    in pad bool[2,1,1,5]
    lowest = -3.4028234663852886e38
    ninf = -inf
    b = select(pad, zero, ninf)
    added = add(s, b)
    m = max(added, lowest))")),
                     "attention"),
            0);
  // Another number than the lowest clamps scores.
  EXPECT_EQ(CountOps(Raised(Attention(R"(
    low = -100
    seen = less_equal(j, i)
    b = select(seen, zero, big)
    added = add(s, b)
    m = max(added, low))")),
                     "attention"),
            0);
}

// As BLOOM adds it: a bias for each batch and head, in one dimension.
TEST(RaiseAttention, BiasOfMergedBatchAndHeads) {
  Program program = Raised(R"(
    in q f32[2,4,5,8]
    in k f32[2,4,5,8]
    in v f32[2,4,5,8]
    weight bias f32[8,1,5]
    q3 = reshape(q) {shape=[8,5,8]}
    k3 = reshape(k) {shape=[8,5,8]}
    v3 = reshape(v) {shape=[8,5,8]}
    kt = transpose(k3) {perm=[0,2,1]}
    s = matmul(q3, kt)
    b = add(bias, s)
    s4 = reshape(b) {shape=[2,4,5,5]}
    p = softmax(s4)
    p3 = reshape(p) {shape=[8,5,5]}
    o = matmul(p3, v3)
    y = reshape(o) {shape=[2,4,5,8]}
    out y)");
  EXPECT_EQ(program.type(OnlyOp(program, "attention").operands[3]).shape(),
            (Shape{2, 4, 1, 5}));
}

// Causal, and padding that is data: where a row sees no key, as with padding
// on the left, it shares evenly over all keys, future ones too.
TEST(RaiseAttention, CausalAndPaddingInOneMask) {
  Program program = Raised(Attention(R"(
    in pad bool[2,1,1,5]
    lowest = -3.4028234663852886e38
    before = less_equal(j, i)
    seen = and(before, pad)
    b = select(seen, zero, lowest)
    m = add(s, b))"));
  ASSERT_EQ(OpCounts(program), "attention 1");
  const Op& op = OnlyOp(program, "attention");
  EXPECT_TRUE(op.attrs.Bool("causal"));
  EXPECT_LT(op.attrs.Float("hidden"), -3e38);
  EXPECT_EQ(program.type(op.operands[3]).shape(), (Shape{2, 1, 1, 5}));
  // A window with it, and selected.
  program = Raised(Attention(R"(
    in pad bool[2,1,1,5]
    lowest = -3.4028234663852886e38
    two = 2 i64
    near = sub(i, two)
    after = less(near, j)
    before = less_equal(j, i)
    band = and(before, after)
    seen = and(band, pad)
    m = select(seen, s, lowest))"));
  EXPECT_EQ(OnlyOp(program, "attention").attrs.Int("window"), 2);
  EXPECT_EQ(program.type(OnlyOp(program, "attention").operands[3]).shape(),
            (Shape{2, 1, 1, 5}));
}

// Two masks of finite numbers: a row that sees nothing gives each key what both
// masks say of it, which the op does where the triangle's number absorbs.
TEST(RaiseAttention, CausalBesideAnotherMaskThatHides) {
  Program program = Raised(Attention(R"(
    in pad bool[2,1,1,5]
    before = less_equal(j, i)
    a = select(before, zero, big)
    p2 = select(pad, zero, big)
    once = add(s, a)
    m = add(once, p2))"));
  EXPECT_TRUE(OnlyOp(program, "attention").attrs.Bool("causal"));
  EXPECT_LT(OnlyOp(program, "attention").attrs.Float("hidden"), -3e38);
  EXPECT_EQ(OnlyOp(program, "attention").operands.size(), 4u);
  // A number that is not among the lowest.
  program = Raised(Attention(R"(
    in pad bool[2,1,1,5]
    some = -1e37
    before = less_equal(j, i)
    seen = and(before, pad)
    b = select(seen, zero, some)
    m = add(s, b))"));
  EXPECT_FALSE(OnlyOp(program, "attention").attrs.Bool("causal"));
}

TEST(RaiseAttention, MasksThatAreSelected) {
  Program program = Raised(Attention(R"(
    later = less(i, j)
    m = select(later, big, s))"));
  ASSERT_EQ(OpCounts(program), "attention 1");
  EXPECT_TRUE(program.ops[0].attrs.Bool("causal"));
}

TEST(RaiseAttention, SlidingWindow) {
  Program program = Raised(Attention(R"(
    seen = less_equal(j, i)
    three = 3 i64
    first = sub(i, three)
    near = less(first, j)
    both = and(seen, near)
    b = select(both, zero, big)
    m = add(b, s))"));
  ASSERT_EQ(OpCounts(program), "attention 1");
  EXPECT_TRUE(program.ops[0].attrs.Bool("causal"));
  EXPECT_EQ(program.ops[0].attrs.Int("window"), 3);
}

TEST(RaiseAttention, AMaskOffByOneStays) {
  Program program = Raised(Attention(R"(
    one = 1 i64
    next = add(i, one)
    seen = less_equal(j, next)
    b = select(seen, zero, big)
    m = add(s, b))"));
  const Op& op = OnlyOp(program, "attention");
  EXPECT_FALSE(op.attrs.Bool("causal"));
  EXPECT_EQ(op.operands.size(), 4u);
}

TEST(RaiseAttention, AMaskOfSmallNumbersStays) {
  Program program = Raised(Attention(R"(
    small = -5
    seen = less_equal(j, i)
    b = select(seen, zero, small)
    m = add(s, b))"));
  EXPECT_EQ(OnlyOp(program, "attention").operands.size(), 4u);
}

TEST(RaiseAttention, ATransposedMaskIsNotCausal) {
  Program program = Raised(Attention(R"(
    seen = less_equal(i, j)
    b = select(seen, zero, big)
    m = add(s, b))"));
  const Op& op = OnlyOp(program, "attention");
  EXPECT_FALSE(op.attrs.Bool("causal"));
  EXPECT_EQ(op.attrs.Int("window"), 1);  // keys > i - 1
}

TEST(RaiseAttention, InfiniteMasksGiveUpTheirCausalPart) {
  // Key 0 is always seen, so that no row is empty.
  Program program = Raised("in pad bool[2,1,1,5]\n" + Attention(R"(
    none = constant() {value=i64[](0)}
    start = equal(j, none)
    ok = or(pad, start)
    inf = constant() {value=f32[](-inf)}
    seen = less_equal(j, i)
    both = and(seen, ok)
    b = select(both, zero, inf)
    m = add(s, b))"));
  const Op& op = OnlyOp(program, "attention");
  EXPECT_TRUE(op.attrs.Bool("causal"));
  ASSERT_EQ(op.operands.size(), 4u);
  EXPECT_EQ(program.type(op.operands[3]).dtype, DType::kBool);
}

TEST(RaiseAttention, NanGuardAndScalesOnBothSides) {
  Program program = Raised(R"(
    in q f32[2,4,5,8]
    in k f32[2,4,5,8]
    in v f32[2,4,5,8]
    r = 0.5
    zero = 0
    qs = mul(q, r)
    km = reshape(k) {shape=[8,5,8]}
    kt = transpose(km) {perm=[0,2,1]}
    k4 = reshape(kt) {shape=[2,4,8,5]}
    ks = mul(k4, r)
    s = matmul(qs, ks)
    p = softmax(s)
    bad = is_nan(p)
    g = select(bad, zero, p)
    y = matmul(g, v)
    out y)");
  EXPECT_EQ(OpCounts(program), "attention 1, transpose 4");
  EXPECT_NEAR(OnlyOp(program, "attention").attrs.Float("scale"), 0.25, 1e-6);
}

TEST(RaiseAttention, RepeatedHeadsBecomeGroups) {
  Program program = Raised(R"(
    in q f32[2,5,4,8]
    in k f32[2,5,2,8]
    in v f32[2,5,2,8]
    qt = transpose(q) {perm=[0,2,1,3]}
    kt = transpose(k) {perm=[0,2,1,3]}
    vt = transpose(v) {perm=[0,2,1,3]}
    k1 = reshape(kt) {shape=[2,2,1,5,8]}
    k2 = broadcast(k1) {shape=[2,2,2,5,8]}
    k3 = reshape(k2) {shape=[2,4,5,8]}
    k4 = transpose(k3) {perm=[0,1,3,2]}
    v1 = reshape(vt) {shape=[2,2,1,5,8]}
    v2 = broadcast(v1) {shape=[2,2,2,5,8]}
    v3 = reshape(v2) {shape=[2,4,5,8]}
    s = matmul(qt, k4)
    p = softmax(s)
    o = matmul(p, v3)
    y = transpose(o) {perm=[0,2,1,3]}
    out y)");
  ASSERT_EQ(OpCounts(program), "attention 1");
  EXPECT_EQ(program.type(program.ops[0].operands[1]).size(2), 2);
}

TEST(RaiseAttention, HeadsRepeatedAsATileStay) {
  // Heads 0 1 0 1, not 0 0 1 1.
  Program program = Raised(R"(
    in q f32[2,5,4,8]
    in k f32[2,5,2,8]
    in v f32[2,5,2,8]
    k1 = reshape(k) {shape=[2,5,1,2,8]}
    k2 = broadcast(k1) {shape=[2,5,2,2,8]}
    k3 = reshape(k2) {shape=[2,5,4,8]}
    v1 = reshape(v) {shape=[2,5,1,2,8]}
    v2 = broadcast(v1) {shape=[2,5,2,2,8]}
    v3 = reshape(v2) {shape=[2,5,4,8]}
    y = attention(q, k3, v3) {scale=0.5}
    out y)");
  EXPECT_EQ(CountOps(program, "broadcast"), 2);
}

TEST(RaiseAttention, ExistingOpsLoseRepeatsAndCausalMasks) {
  Program program = Raised(R"(
    in q f32[2,5,4,8]
    in k f32[2,5,1,8]
    in v f32[2,5,1,8]
    i = iota() {shape=[5,1], dim=0, dtype=i64}
    j = iota() {shape=[1,5], dim=1, dtype=i64}
    seen = less_equal(j, i)
    mask = broadcast(seen) {shape=[2,1,5,5]}
    k1 = broadcast(k) {shape=[2,5,4,8]}
    v1 = broadcast(v) {shape=[2,5,4,8]}
    y = attention(q, k1, v1, mask) {scale=0.5}
    out y)");
  ASSERT_EQ(OpCounts(program), "attention 1");
  EXPECT_TRUE(program.ops[0].attrs.Bool("causal"));
  EXPECT_EQ(program.type(program.ops[0].operands[1]).size(2), 1);
}

TEST(RaiseAttention, SoftcapAndCasts) {
  Program program = Transformed(RaiseAttention, R"(
    in q bf16[2,4,5,8]
    in k bf16[2,4,5,8]
    in v bf16[2,4,5,8]
    c = 0.5 bf16
    cap = 20 bf16
    raw = matmul(q, k) {transpose_b=true}
    s = mul(raw, c)
    d = div(s, cap)
    t = tanh(d)
    u = mul(t, cap)
    f = cast(u) {to=f32}
    p = softmax(f)
    b = cast(p) {to=bf16}
    y = matmul(b, v)
    out y)",
                                5e-2);
  const Op& op = OnlyOp(program, "attention");
  EXPECT_NEAR(op.attrs.Float("softcap"), 20, 1e-6);
  EXPECT_NEAR(op.attrs.Float("scale"), 0.5, 1e-6);
}

TEST(RaiseAttention, RankThree) {
  Program program = Raised(R"(
    in q f32[6,5,8]
    in k f32[6,7,8]
    in v f32[6,7,4]
    in bias f32[6,5,7]
    s = matmul(q, k) {transpose_b=true}
    m = add(s, bias)
    p = softmax(m)
    y = matmul(p, v)
    out y)");
  EXPECT_EQ(CountOps(program, "attention"), 1);
  EXPECT_EQ(CountOps(program, "softmax"), 0);
}

TEST(RaiseAttention, StoredMasks) {
  Program program = ASYRA_VALUE(ParseUntyped(R"(
    in q f32[1,4,2,8]
    in k f32[1,4,2,8]
    weight mask bool[1,1,4,4]
    y = attention(q, k, k, mask) {scale=0.5}
    out y)"));
  for (int hole : {-1, 4}) {
    Tensor data(DType::kBool, {1, 1, 4, 4});
    for (int i = 0; i < 16; ++i) data.SetInt(i, i % 4 <= i / 4 && i != hole);
    auto store = std::make_shared<WeightStore>();
    store->Set("mask", data);
    program.weights = store;
    Program after = program;
    PassContext context;
    ASSERT_TRUE(RaiseAttention(after, {}, context).ok());
    EXPECT_EQ(after.ops[0].attrs.Bool("causal"), hole < 0);
    EXPECT_TRUE(SameMeaning(program, after, 3, 1e-5).ok());
  }
}

TEST(RaiseAttention, OtherMatmulsOfASoftmaxStay) {
  // Over the wrong dimension; of no matmul; a linear layer's rows.
  EXPECT_EQ(CountOps(Raised(R"(
    in q f32[2,4,5,8]
    in k f32[2,4,5,8]
    s = matmul(q, k) {transpose_b=true}
    p = softmax(s) {dim=2}
    y = matmul(p, k)
    out y)"),
                     "attention"),
            0);
  EXPECT_EQ(CountOps(Raised(R"(
    in s f32[2,4,5,5]
    in v f32[2,4,5,8]
    p = softmax(s)
    y = matmul(p, v)
    out y)"),
                     "attention"),
            0);
  EXPECT_EQ(CountOps(Raised(R"(
    in x f32[2,5,8]
    weight w f32[8,6]
    weight e f32[6,8]
    s = matmul(x, w)
    p = softmax(s)
    y = matmul(p, e)
    out y)"),
                     "attention"),
            0);
}

}  // namespace
}  // namespace asyra
