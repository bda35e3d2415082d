#include "executor/cuda/kernels/conv.h"
#include "executor/cuda/kernels/float_types.cuh"

namespace asyra::cuda {
namespace {

// Finds the elements that a result sees, by their beginning and distance.
struct Cursor {
  int64_t results[kMaxSpatial];

  __device__ Cursor(const ConvProblem& p, int64_t flat) {
    for (int i = kMaxSpatial - 1; i >= 0; --i) {
      results[i] = flat % p.windows[i].results;
      flat /= p.windows[i].results;
    }
  }
  // The element of a channel that a tap sees, or -1.
  __device__ int64_t Seen(const ConvProblem& p, int64_t tap) const {
    int64_t at = 0, stride = 1;
    for (int i = kMaxSpatial - 1; i >= 0; --i) {
      const ConvWindow& w = p.windows[i];
      int64_t one =
          results[i] * w.stride + tap % w.taps * w.dilation - w.before;
      tap /= w.taps;
      if (one < 0 || one % w.spacing != 0 || one / w.spacing >= w.size) {
        return -1;
      }
      at += one / w.spacing * stride;
      stride *= w.size;
    }
    return at;
  }
};

struct Sizes {
  int64_t plane = 1, taps = 1, results = 1;
  explicit Sizes(const ConvProblem& p) {
    for (const ConvWindow& window : p.windows) {
      plane *= window.size;
      taps *= window.taps;
      results *= window.results;
    }
  }
};

template <typename T>
__global__ void ConvKernel(ConvProblem p, Sizes sizes, const T* x, const T* w,
                           T* y, int64_t count) {
  using A = typename SumOf<T>::Type;
  int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += step) {
    Cursor cursor(p, i % sizes.results);
    int64_t output = i / sizes.results % p.outputs;
    int64_t n = i / sizes.results / p.outputs;
    int64_t group = output / (p.outputs / p.groups);
    const T* from = x + (n * p.groups + group) * p.per_group * sizes.plane;
    const T* weights = w + output * p.per_group * sizes.taps;
    A sum = 0;
    for (int64_t tap = 0; tap < sizes.taps; ++tap) {
      int64_t at = cursor.Seen(p, tap);
      if (at < 0) continue;
      for (int64_t c = 0; c < p.per_group; ++c) {
        sum += Widen<A>(from[c * sizes.plane + at]) *
               Widen<A>(weights[c * sizes.taps + tap]);
      }
    }
    y[i] = Narrow<T>(sum);
  }
}

}  // namespace

cudaError_t Conv(const ConvProblem& p, const void* x, const void* w, void* y,
                 cudaStream_t stream) {
  constexpr int64_t kThreads = 256, kMostBlocks = 1 << 16;
  Sizes sizes(p);
  int64_t count = p.batch * p.outputs * sizes.results;
  if (count == 0) return cudaSuccess;
  int64_t blocks = (count + kThreads - 1) / kThreads;
  return WithFloat(p.element, [&](auto element) {
    using T = decltype(element);
    ConvKernel<T>
        <<<static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks),
           kThreads, 0, stream>>>(p, sizes, static_cast<const T*>(x),
                                  static_cast<const T*>(w), static_cast<T*>(y),
                                  count);
    return cudaPeekAtLastError();
  });
}

}  // namespace asyra::cuda
