#include "executor/cuda/codegen/expression.h"

namespace asyra::cuda {

const char kExpressionPrelude[] = R"(
typedef long long int64;
typedef unsigned long long uint64;
float Infinity() { return __int_as_float(0x7f800000); }
float NotANumber() { return __int_as_float(0x7fffffff); }

struct Bool { unsigned char bits; };
struct F16 { unsigned short bits; };
struct BF16 { unsigned short bits; };

// Elements that are moved at once.
template <class T, int n>
struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) Pack { T at[n]; };

int64 Load(Bool x) { return x.bits != 0; }
int64 Load(int x) { return x; }
int64 Load(int64 x) { return x; }
float Load(F16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
float Load(BF16 x) { return __uint_as_float(unsigned(x.bits) << 16); }
float Load(float x) { return x; }
double Load(double x) { return x; }

template <class C> void Put(C x, float& to) { to = float(x); }
template <class C> void Put(C x, double& to) { to = double(x); }
template <class C> void Put(C x, Bool& to) { to.bits = x != 0; }
template <class C> void Put(C x, F16& to) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(float(x)));
}
template <class C> void Put(C x, BF16& to) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(float(x)));
}
// Floats toward zero, within the range; not-a-number is 0.
void Put(int64 x, int& to) { to = int(x); }
void Put(float x, int& to) { to = x != x ? 0 : __float2int_rz(x); }
void Put(double x, int& to) { to = x != x ? 0 : __double2int_rz(x); }
void Put(int64 x, int64& to) { to = x; }
void Put(float x, int64& to) { to = x != x ? 0 : __float2ll_rz(x); }
void Put(double x, int64& to) { to = x != x ? 0 : __double2ll_rz(x); }

template <class T, class C> auto Rounded(C x) {
  T stored;
  Put(x, stored);
  return Load(stored);
}

// ir/ops/integers.h.
template <class C> C Larger(C a, C b) { return a < b || b != b ? b : a; }
template <class C> C Smaller(C a, C b) { return b < a || b != b ? b : a; }
template <class C> C Sign(C x) { return x != x ? x : C((x > 0) - (x < 0)); }

int64 Divide(int64 a, int64 b) {
  const int64 least = int64(uint64(1) << 63);
  return b == 0 || (b == -1 && a == least) ? 0 : a / b;
}
int64 Power(int64 a, int64 b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
  uint64 power = 1, square = uint64(a);
  for (uint64 rest = uint64(b); rest > 0; rest >>= 1, square *= square) {
    if (rest & 1) power *= square;
  }
  return int64(power);
}
template <class C> C Signed(C rest, C b, bool truncated) {
  return !truncated && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
int64 Remainder(int64 a, int64 b, bool truncated) {
  return b == 0 || b == -1 ? 0 : Signed(a % b, b, truncated);
}
template <class C> C Remainder(C a, C b, bool truncated) {
  return Signed(C(fmod(a, b)), b, truncated);
}

// In single precision within two units in the last place, and 0 above 2^126. An
// exact one is many instructions, which take longer than memory under load.
float Inverse(float x) { return __fdividef(1.0f, x); }
double Inverse(double x) { return 1 / x; }
// An expression that has both computes the sigmoid once.
template <class C> C Sigmoid(C x) { return Inverse(1 + exp(-x)); }
template <class C> C Silu(C x) { return x * Sigmoid(x); }
template <class C> C QuickGelu(C x) { return x * Sigmoid(C(1.702) * x); }
template <class C> C Gelu(C x) {
  return x / 2 * (1 + erf(x * C(0.70710678118654752)));
}
template <class C> C GeluTanh(C x) {
  C inner = C(0.79788456080286536) * (x + C(0.044715) * x * x * x);
  return x / 2 * (1 + tanh(inner));
}
template <class C> C Relu(C x) { return Larger(x, C(0)); }
template <class C> C Softplus(C x) { return Relu(x) + log1p(exp(-fabs(x))); }
template <class C> C HardSwish(C x) {
  return x * Smaller(Larger(x / 6 + C(0.5), C(0)), C(1));
}

// Word i of a random stream (ir/support/random.h).
unsigned Word(int64 seed, int64 stream, int64 i) {
  uint64 block = uint64(i) / 4;
  unsigned c[4] = {unsigned(block), unsigned(block >> 32), unsigned(stream),
                   unsigned(uint64(stream) >> 32)};
  unsigned k0 = unsigned(seed), k1 = unsigned(uint64(seed) >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64 a = uint64(0xD2511F53u) * c[0], b = uint64(0xCD9E8D57u) * c[2];
    unsigned next[4] = {unsigned(b >> 32) ^ c[1] ^ k0, unsigned(b),
                        unsigned(a >> 32) ^ c[3] ^ k1, unsigned(a)};
    for (int j = 0; j < 4; ++j) c[j] = next[j];
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const unsigned lane = unsigned(uint64(i) % 4);
  return lane < 2 ? (lane == 0 ? c[0] : c[1]) : (lane == 2 ? c[2] : c[3]);
}
// ir/ops/random_numbers.h.
double Uniform(unsigned word, int bits) {
  return double(word >> (32 - bits)) / double(1u << bits);
}
double Normal(int64 seed, int64 stream, int64 i) {
  const int64 pair = i & ~int64(1);
  double radius = (Word(seed, stream, pair) + 1.0) / 4294967296.0;
  double angle = 6.2831853071795865 * Word(seed, stream, pair + 1) /
                 4294967296.0;
  return sqrt(-2 * log(radius)) * (i % 2 == 0 ? cos(angle) : sin(angle));
}

// Reductions, with Larger and Smaller.
template <class C> C Plus(C a, C b) { return a + b; }
int64 Plus(int64 a, int64 b) { return int64(uint64(a) + uint64(b)); }
template <class C> C Times(C a, C b) { return a * b; }
int64 Times(int64 a, int64 b) { return int64(uint64(a) * uint64(b)); }
)";

}  // namespace asyra::cuda
