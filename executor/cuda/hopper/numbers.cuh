// Types and numbers of device code. Text for NVRTC: constants BF16, whether
// 16-bit elements are bf16 or f16, kF32 and kBF16, numbers of Element, are
// written before it.

using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using int64 = long long;
using uint64 = unsigned long long;

#define NEVER __int_as_float(0xff800000)  // -inf
#define ENDLESS __int_as_float(0x7f800000)
#define NAN32 __int_as_float(0x7fffffff)

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float Reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Computes tanh by exp, with an error of 1e-7; tanh.approx has 5e-4.
__device__ __forceinline__ float Tanh(float x) {
  return 1 - 2 * Reciprocal(1 + Exp2(2 * kLog2E * x));
}

__device__ __forceinline__ uint32 PackF16(float low, float high) {
  uint32 both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

#if BF16
__device__ __forceinline__ uint32 Pack(float low, float high) {
  uint32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
#else
__device__ __forceinline__ uint32 Pack(float low, float high) {
  return PackF16(low, high);
}
#endif

__device__ __forceinline__ float FromBF16(uint16 bits) {
  return __uint_as_float(uint32{bits} << 16);
}
__device__ __forceinline__ float FromF16(uint16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ __forceinline__ float FromT(uint16 bits) {
  return BF16 ? FromBF16(bits) : FromF16(bits);
}

// Element types as Element numbers them: constants kF32 and so on are written
// before this text.
__device__ __forceinline__ float LoadFloat(const void* data, int type,
                                           int64 at) {
  if (type == kF32) return static_cast<const float*>(data)[at];
  uint16 bits = static_cast<const uint16*>(data)[at];
  return type == kBF16 ? FromBF16(bits) : FromF16(bits);
}
