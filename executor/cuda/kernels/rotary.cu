#include "executor/cuda/kernels/number.cuh"
#include "executor/cuda/kernels/rotary.h"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 256;

// (a, b) turned by an angle.
template <typename T, int n>
__device__ void Turn(Pack<T, n>* a, Pack<T, n>* b, const Pack<T, n>& cos,
                     const Pack<T, n>& sin) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
    Wide<T> x = Number(a->at[i]), y = Number(b->at[i]);
    Wide<T> c = Number(cos.at[i]), s = Number(sin.at[i]);
    a->at[i] = Rounded<T>(x * c - y * s);
    b->at[i] = Rounded<T>(y * c + x * s);
  }
}

template <typename T, int n>
__device__ Pack<T, n> Read(const T* from) {
  return *reinterpret_cast<const Pack<T, n>*>(from);
}
template <typename T, int n>
__device__ void Write(const Pack<T, n>& pack, T* to) {
  *reinterpret_cast<Pack<T, n>*>(to) = pack;
}

// The n elements from `first` on of a head's first half, with their partners.
template <typename T, int n>
__device__ void TurnHalves(const T* x, const T* cos, const T* sin, int first,
                           int half, T* to) {
  auto a = Read<T, n>(x + first), b = Read<T, n>(x + half + first);
  Turn(&a, &b, Read<T, n>(cos + first), Read<T, n>(sin + first));
  Write(a, to + first);
  Write(b, to + half + first);
}

// Pairs `first` to `first` + n, which are adjacent.
template <typename T, int n>
__device__ void TurnPairs(const T* x, const T* cos, const T* sin, int first,
                          T* to) {
  Pack<T, n> halves[2] = {Read<T, n>(x + 2 * first),
                          Read<T, n>(x + 2 * first + n)};
  Pack<T, n> a, b;
#pragma unroll
  for (int i = 0; i < n; ++i) {
    a.at[i] = halves[2 * i / n].at[2 * i % n];
    b.at[i] = halves[(2 * i + 1) / n].at[(2 * i + 1) % n];
  }
  Turn(&a, &b, Read<T, n>(cos + first), Read<T, n>(sin + first));
#pragma unroll
  for (int i = 0; i < n; ++i) {
    halves[2 * i / n].at[2 * i % n] = a.at[i];
    halves[(2 * i + 1) / n].at[(2 * i + 1) % n] = b.at[i];
  }
  Write(halves[0], to + 2 * first);
  Write(halves[1], to + 2 * first + n);
}

// A thread turns n pairs, or keeps n elements. n divides half and size.
template <typename T, int n, typename Index>
__global__ void __launch_bounds__(kThreads)
    RotaryKernel(Rotary r, const T* x, const T* cos, const T* sin, T* to) {
  auto turns = static_cast<Index>(r.half / n);
  Index items = turns + static_cast<Index>((r.size - 2 * r.half) / n);
  auto heads = static_cast<Index>(r.heads);
  Index count = static_cast<Index>(r.rows) * heads * items;
  Index step = Index{gridDim.x} * blockDim.x;
  for (Index i = Index{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += step) {
    Index item = i % items, head = i / items;
    int64_t angle = head / heads % static_cast<Index>(r.angles) * r.half;
    int64_t at = head * r.size;
    if (item >= turns) {
      int64_t kept = at + 2 * r.half + static_cast<int64_t>(item - turns) * n;
      Write(Read<T, n>(x + kept), to + kept);
    } else if (r.interleaved) {
      TurnPairs<T, n>(x + at, cos + angle, sin + angle,
                      static_cast<int>(item) * n, to + at);
    } else {
      TurnHalves<T, n>(x + at, cos + angle, sin + angle,
                       static_cast<int>(item) * n, static_cast<int>(r.half),
                       to + at);
    }
  }
}

template <typename T, int n>
cudaError_t Launch(const Rotary& r, const void* x, const void* cos,
                   const void* sin, void* to, cudaStream_t stream) {
  int64_t count = r.rows * r.heads * (r.size / n);  // at least as many
  if (count == 0) return cudaSuccess;
  auto* kernel = count < INT32_MAX / 2 ? RotaryKernel<T, n, uint32_t>
                                       : RotaryKernel<T, n, uint64_t>;
  kernel<<<BlocksFor(count, kThreads), kThreads, 0, stream>>>(
      r, static_cast<const T*>(x), static_cast<const T*>(cos),
      static_cast<const T*>(sin), static_cast<T*>(to));
  return cudaPeekAtLastError();
}

}  // namespace

cudaError_t Rotate(const Rotary& r, const void* x, const void* cos,
                   const void* sin, void* to, cudaStream_t stream) {
  return WithFloat(r.element, [&](auto number) {
    using T = decltype(number);
    constexpr int kVector = 16 / sizeof(T);
    bool divides = r.half % kVector == 0 && r.size % kVector == 0;
    return divides ? Launch<T, kVector>(r, x, cos, sin, to, stream)
                   : Launch<T, 1>(r, x, cos, sin, to, stream);
  });
}

}  // namespace asyra::cuda
