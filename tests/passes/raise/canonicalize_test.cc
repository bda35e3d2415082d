// What needs no knowledge of shapes: dead ops, repeats, identities, constants.
#include "gmock/gmock.h"
#include "ir/weights/weight_store.h"
#include "tests/passes/canonical.h"

namespace asyra {
namespace {

using ::testing::IsEmpty;

TEST(Canonicalize, DropsDeadOpsAndRepeatsButKeepsNames) {
  Program program = Canonical(R"(
    in x f32[4,6]
    a = exp(x)
    b = exp(x)
    dead = log(x)
    y = add(a, b)
    out y)");
  EXPECT_EQ(OpCounts(program), "add 1, exp 1");
  EXPECT_EQ(program.output_name(program.outputs[0]), "y");
}

TEST(Canonicalize, OutputsKeepTheirNamesWhenTheirOpsVanish) {
  Program program = Canonical(R"(
    in x f32[4,6]
    zero = 0
    a = exp(x)
    logits = add(a, zero)
    out logits)");
  EXPECT_EQ(OpCounts(program), "exp 1");
  EXPECT_EQ(program.output_name(program.outputs[0]), "logits");
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
