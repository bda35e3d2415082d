#include "passes/raise/raise_activation.h"

#include "tests/passes/transformed.h"

namespace asyra {
namespace {

std::string Raised(std::string_view body) {
  return Ops(RaiseActivation,
             "in x f32[3,8]\nin u f32[3,8]\none = 1\nhalf = 0.5\n" +
                 std::string(body) + "\nout y\n");
}

TEST(RaiseActivation, GeluInAnyOrder) {
  EXPECT_EQ(Raised(R"(
    root = 1.4142135381698608
    d = div(x, root)
    e = erf(d)
    p = add(e, one)
    h = mul(half, p)
    y = mul(x, h))"),
            "gelu 1");
  EXPECT_EQ(Raised(R"(
    r = 0.70710678
    d = mul(x, r)
    e = erf(d)
    p = add(one, e)
    xp = mul(x, p)
    two = 2
    y = div(xp, two))"),
            "gelu 1");
}

TEST(RaiseActivation, GatedAndQuick) {
  EXPECT_EQ(Raised(R"(
    c = 1.702
    cx = mul(x, c)
    s = sigmoid(cx)
    y = mul(s, x))"),
            "quick_gelu 1");
  for (auto [activation, gated] : {std::pair("gelu", "geglu 1"),
                                   {"gelu_tanh", "geglu_tanh 1"},
                                   {"relu", "reglu 1"},
                                   {"silu", "swiglu 1"}}) {
    EXPECT_EQ(Raised(fmt::format("a = {}(x)\ny = mul(u, a)", activation)),
              gated);
  }
  // A square: the other side is the activation too.
  EXPECT_EQ(Raised("a = relu(x)\ny = mul(a, a)"), "mul 1, relu 1");
  // Not of x's shape.
  EXPECT_EQ(Raised("weight w f32[8]\na = relu(x)\ny = mul(a, w)"),
            "mul 1, relu 1");
}

TEST(RaiseActivation, GeluTanh) {
  EXPECT_EQ(Raised(R"(
    h = mul(x, half)
    three = 3
    cube = pow(x, three)
    c = 0.044715
    cc = mul(cube, c)
    s = add(x, cc)
    r = 0.7978845834732056
    i = mul(s, r)
    t = tanh(i)
    p = add(t, one)
    y = mul(h, p))"),
            "gelu_tanh 1");
  EXPECT_EQ(Raised(R"(
    c = 0.044715
    s = mul(x, x)
    cs = mul(c, s)
    q = add(one, cs)
    r = 0.7978845834732056
    rx = mul(r, x)
    i = mul(rx, q)
    t = tanh(i)
    p = add(t, one)
    px = mul(p, x)
    y = mul(px, half))"),
            "gelu_tanh 1");
}

TEST(RaiseActivation, SiluAndSwiglu) {
  EXPECT_EQ(Raised("s = sigmoid(x)\ny = mul(x, s)"), "silu 1");
  EXPECT_EQ(Raised(R"(
    n = neg(x)
    e = exp(n)
    p = add(e, one)
    y = div(x, p))"),
            "silu 1");
  EXPECT_EQ(Raised("s = sigmoid(x)\na = mul(x, s)\ny = mul(a, u)"), "swiglu 1");
  Program program =
      Transformed(RaiseActivation,
                  "in x f32[3]\nin u f32[3]\ns = sigmoid(x)\na = mul(s, x)\n"
                  "y = mul(u, a)\nout y\n");
  ASSERT_EQ(OpCounts(program), "swiglu 1");
  EXPECT_EQ(program.value_name(program.ops[0].operands[0]), "x");
}

TEST(RaiseActivation, NearMissesStay) {
  EXPECT_EQ(Raised("s = sigmoid(u)\ny = mul(x, s)"), "mul 1, sigmoid 1");
  EXPECT_EQ(Raised(R"(
    d = mul(x, half)
    e = erf(d)
    p = add(one, e)
    h = mul(x, half)
    y = mul(h, p))"),
            "add 1, constant 2, erf 1, mul 2");
  // 0.0447 is not 0.044715 in f32.
  EXPECT_EQ(Raised(R"(
    h = mul(x, half)
    three = 3
    cube = pow(x, three)
    c = 0.0447
    cc = mul(cube, c)
    s = add(x, cc)
    r = 0.7978845834732056
    i = mul(s, r)
    t = tanh(i)
    p = add(t, one)
    y = mul(h, p))"),
            "add 2, constant 5, mul 4, pow 1, tanh 1");
}

TEST(RaiseActivation, ABroadcastGateIsNoSwiglu) {
  EXPECT_EQ(Ops(RaiseActivation, R"(
    in x f32[3,1]
    in u f32[3,8]
    s = sigmoid(x)
    a = mul(x, s)
    y = mul(a, u)
    out y)"),
            "mul 1, silu 1");
}

}  // namespace
}  // namespace asyra
