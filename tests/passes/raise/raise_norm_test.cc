#include "passes/raise/raise_norm.h"

#include "tests/passes/transformed.h"

namespace asyra {
namespace {

// The lines every form begins with.
std::string Form(std::string_view body) {
  return R"(
    in x f32[2,3,8]
    weight g f32[8]
    weight b f32[8]
    two = 2
    eps = 0.001
    one = 1
    )" + std::string(body) +
         "\nout y\n";
}

std::string Raised(std::string_view body) { return Ops(RaiseNorm, Form(body)); }

TEST(RaiseNorm, RmsNormAsPyTorchExportsIt) {
  Program program = Transformed(RaiseNorm, Form(R"(
    s = pow(x, two)
    m = reduce_mean(s) {dims=[-1]}
    e = add(m, eps)
    r = sqrt(e)
    i = reciprocal(r)
    n = mul(x, i)
    y = mul(g, n))"));
  EXPECT_EQ(OpCounts(program), "rms_norm 1");
  EXPECT_NEAR(program.ops[0].attrs.Float("eps"), 0.001, 1e-9);
}

TEST(RaiseNorm, ScaledBeforeItIsDivided) {
  EXPECT_EQ(Raised(R"(
    s = mul(x, x)
    m = reduce_mean(s) {dims=[-1]}
    e = add(m, eps)
    r = sqrt(e)
    gx = mul(g, x)
    y = div(gx, r))"),
            "rms_norm 1");
}

TEST(RaiseNorm, VarianceThatDropsItsDimension) {
  EXPECT_EQ(Raised(R"(
    m = reduce_mean(x) {dims=[-1]}
    c = sub(x, m)
    s = mul(c, c)
    v = reduce_mean(s) {dims=[2], keep=false}
    e = add(v, eps)
    r = rsqrt(e)
    r1 = reshape(r) {shape=[2,3,1]}
    n = mul(c, r1)
    ng = mul(n, g)
    y = add(ng, b))"),
            "layer_norm 1");
}

TEST(RaiseNorm, VarianceAsADifferenceOfMeans) {
  EXPECT_EQ(Raised(R"(
    m = reduce_mean(x) {dims=[-1]}
    s = mul(x, x)
    sm = reduce_mean(s) {dims=[-1]}
    mm = mul(m, m)
    v = sub(sm, mm)
    e = add(v, eps)
    r = rsqrt(e)
    c = sub(x, m)
    n = mul(c, r)
    y = mul(n, g))"),
            "layer_norm 1");
  // The mean of something else.
  EXPECT_EQ(Raised(R"(
    in z f32[2,3,8]
    m = reduce_mean(x) {dims=[-1]}
    s = mul(x, x)
    sm = reduce_mean(s) {dims=[-1]}
    zm = reduce_mean(z) {dims=[-1]}
    mm = mul(zm, zm)
    v = sub(sm, mm)
    e = add(v, eps)
    r = rsqrt(e)
    c = sub(x, m)
    n = mul(c, r)
    y = mul(n, g))"),
            "add 1, constant 1, mul 4, reduce_mean 3, rsqrt 1, sub 2");
}

TEST(RaiseNorm, WithoutEpsilon) {
  Program program = Transformed(RaiseNorm, Form(R"(
    s = mul(x, x)
    m = reduce_mean(s) {dims=[-1]}
    r = rsqrt(m)
    n = mul(x, r)
    y = mul(g, n))"));
  EXPECT_EQ(OpCounts(program), "rms_norm 1");
  EXPECT_EQ(program.ops[0].attrs.Float("eps"), 0);
}

TEST(RaiseNorm, RmsNormInOtherSpellings) {
  EXPECT_EQ(Raised(R"(
    s = mul(x, x)
    m = reduce_mean(s) {dims=[2]}
    e = add(eps, m)
    r = sqrt(e)
    n = div(x, r)
    y = mul(n, g))"),
            "rms_norm 1");
  EXPECT_EQ(Raised(R"(
    s = mul(x, x)
    total = reduce_sum(s) {dims=[2]}
    eight = 8
    m = div(total, eight)
    e = add(eps, m)
    r = rsqrt(e)
    gr = mul(r, g)
    y = mul(gr, x))"),
            "rms_norm 1");
  EXPECT_EQ(Raised(R"(
    s = mul(x, x)
    total = reduce_sum(s) {dims=[2]}
    eighth = 0.125
    m = mul(eighth, total)
    e = add(eps, m)
    half = -0.5
    r = pow(e, half)
    n = mul(r, x)
    g3 = reshape(g) {shape=[1,1,8]}
    y = mul(g3, n))"),
            "rms_norm 1");
}

TEST(RaiseNorm, RmsNormWithoutScaleScalesByOne) {
  EXPECT_EQ(Raised(R"(
    s = mul(x, x)
    m = reduce_mean(s) {dims=[2]}
    e = add(eps, m)
    r = rsqrt(e)
    y = mul(r, x))"),
            "broadcast 1, constant 1, rms_norm 1");
}

TEST(RaiseNorm, CastsAroundRmsNormVanish) {
  // Scaled in bf16 after the cast back, as Llama does it.
  EXPECT_EQ(Ops(RaiseNorm, R"(
    in x bf16[2,8]
    weight g bf16[8]
    c = cast(x) {to=f32}
    two = 2
    eps = 0.001
    s = pow(c, two)
    m = reduce_mean(s) {dims=[-1]}
    e = add(m, eps)
    r = rsqrt(e)
    n = mul(c, r)
    b = cast(n) {to=bf16}
    y = mul(g, b)
    out y)",
                1e-2),
            "rms_norm 1");
  // Scaled in f32 before the cast back.
  EXPECT_EQ(Ops(RaiseNorm, R"(
    in x bf16[2,8]
    weight g bf16[8]
    c = cast(x) {to=f32}
    eps = 0.001
    s = mul(c, c)
    m = reduce_mean(s) {dims=[-1]}
    e = add(m, eps)
    r = rsqrt(e)
    n = mul(c, r)
    gf = cast(g) {to=f32}
    b = mul(n, gf)
    y = cast(b) {to=bf16}
    out y)",
                1e-2),
            "rms_norm 1");
}

TEST(RaiseNorm, LayerNorm) {
  EXPECT_EQ(Raised(R"(
    mu = reduce_mean(x) {dims=[-1]}
    d = sub(x, mu)
    s = pow(d, two)
    v = reduce_mean(s) {dims=[-1]}
    e = add(v, eps)
    r = sqrt(e)
    n = div(d, r)
    w = mul(n, g)
    y = add(w, b))"),
            "layer_norm 1");
  EXPECT_EQ(Raised(R"(
    mu = reduce_mean(x) {dims=[-1]}
    d = sub(x, mu)
    s = mul(d, d)
    v = reduce_mean(s) {dims=[-1]}
    e = add(v, eps)
    r = rsqrt(e)
    n = mul(d, r)
    y = mul(g, n))"),
            "layer_norm 1");
}

TEST(RaiseNorm, NearMissesStay) {
  // Another axis.
  EXPECT_EQ(Raised(R"(
    s = mul(x, x)
    m = reduce_mean(s) {dims=[1]}
    e = add(eps, m)
    r = rsqrt(e)
    y = mul(r, x))"),
            "add 1, constant 1, mul 2, reduce_mean 1, rsqrt 1");
  // The square of something else.
  EXPECT_EQ(Raised(R"(
    z = exp(x)
    s = mul(z, z)
    m = reduce_mean(s) {dims=[2]}
    e = add(eps, m)
    r = rsqrt(e)
    y = mul(r, x))"),
            "add 1, constant 1, exp 1, mul 2, reduce_mean 1, rsqrt 1");
  // A sum over a count that is not the number of elements.
  EXPECT_EQ(Raised(R"(
    s = mul(x, x)
    t = reduce_sum(s) {dims=[2]}
    seven = 7
    m = div(t, seven)
    e = add(eps, m)
    r = rsqrt(e)
    y = mul(r, x))"),
            "add 1, constant 2, div 1, mul 2, reduce_sum 1, rsqrt 1");
  // The mean is subtracted in the square only.
  EXPECT_EQ(Raised(R"(
    mu = reduce_mean(x) {dims=[-1]}
    d = sub(x, mu)
    s = mul(d, d)
    v = reduce_mean(s) {dims=[-1]}
    e = add(v, eps)
    r = rsqrt(e)
    y = mul(x, r))"),
            "add 1, constant 1, mul 2, reduce_mean 2, rsqrt 1, sub 1");
}

TEST(RaiseNorm, AScaleThatVariesOverRowsStaysBehind) {
  EXPECT_EQ(Ops(RaiseNorm, R"(
    in x f32[8,8]
    in g f32[8,1]
    eps = 0.001
    s = mul(x, x)
    m = reduce_mean(s) {dims=[1]}
    e = add(eps, m)
    r = rsqrt(e)
    n = mul(r, x)
    y = mul(n, g)
    out y)"),
            "broadcast 1, constant 1, mul 1, rms_norm 1");
}

TEST(RaiseNorm, SaysWhenThereIsNothing) {
  Program program = ASYRA_VALUE(ParseUntyped("in x f32[2]\nout x\n"));
  PassContext context;
  EXPECT_FALSE(RaiseNorm(program, {}, context).value());
  EXPECT_EQ(context.remarks.size(), 1u);
}

}  // namespace
}  // namespace asyra
