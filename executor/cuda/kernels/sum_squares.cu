// Bound by memory: each element is read once, eight vectors of a thread in
// flight. A block sums a piece of one tensor, another kernel of one block what
// those have found.
#include "executor/cuda/kernels/number.cuh"
#include "executor/cuda/kernels/sum_squares.h"
#include "executor/cuda/kernels/tensor_of_block.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 256, kLastThreads = 1024, kWarp = 32;
constexpr int kRounds = 8;  // vectors that a thread reads
// Arguments of a kernel have 4 KiB.
constexpr int kMostTensors = 128;

template <typename T>
constexpr int kVector = 16 / sizeof(T);

struct Tensors {
  int count = 0;
  // First block of each tensor, and the number of all blocks after the last.
  int first_block[kMostTensors + 1];
  SquaredTensor at[kMostTensors];
};

int64_t PieceOf(Element element) {
  int64_t size = element == Element::kF64   ? 8
                 : element == Element::kF32 ? 4
                                            : 2;
  return kThreads * kRounds * 16 / size;
}

int64_t BlocksOf(const SquaredTensor& tensor) {
  int64_t piece = PieceOf(tensor.element);
  return (tensor.count + piece - 1) / piece;
}

template <typename S, typename T>
__device__ S SquaresOfPiece(const void* data, int64_t count, int piece) {
  constexpr int n = kVector<T>;
  using Vector = Pack<T, n>;
  const T* x = static_cast<const T*>(data);
  int64_t first = (int64_t{piece} * kRounds * kThreads + threadIdx.x) * n;
  auto at = [&](int r) { return first + int64_t{r} * kThreads * n; };
  S sum = 0;
  auto add = [&](T element) {
    auto value = static_cast<S>(Number(element));
    sum += value * value;
  };
  if (at(kRounds - 1) + n <= count) {
    Vector loaded[kRounds];
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      loaded[r] = *reinterpret_cast<const Vector*>(x + at(r));
    }
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
#pragma unroll
      for (int k = 0; k < n; ++k) add(loaded[r].at[k]);
    }
    return sum;
  }
  for (int r = 0; r < kRounds; ++r) {
    for (int64_t i = at(r); i < at(r) + n && i < count; ++i) add(x[i]);
  }
  return sum;
}

// The sum of a block's values, in thread 0.
template <int threads, typename S>
__device__ S BlockSum(S sum) {
  __shared__ S of_warp[threads / kWarp];
  auto in_warp = [&](int width) {
    for (int step = width / 2; step > 0; step /= 2) {
      sum += __shfl_down_sync(~0u, sum, step);
    }
  };
  in_warp(kWarp);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x < kWarp) {
    sum = threadIdx.x < threads / kWarp ? of_warp[threadIdx.x] : S{0};
    in_warp(kWarp);
  }
  return sum;
}

template <typename S>
__device__ S SquaresOf(const SquaredTensor& x, int piece) {
  if constexpr (std::is_same_v<S, double>) {
    return SquaresOfPiece<S, double>(x.data, x.count, piece);
  } else {
    if (x.element == Element::kBF16) {
      return SquaresOfPiece<S, __nv_bfloat16>(x.data, x.count, piece);
    }
    if (x.element == Element::kF16) {
      return SquaresOfPiece<S, __half>(x.data, x.count, piece);
    }
    return SquaresOfPiece<S, float>(x.data, x.count, piece);
  }
}

template <typename S>
__global__ void __launch_bounds__(kThreads)
    PieceKernel(const __grid_constant__ Tensors tensors, S* partial) {
  int block = static_cast<int>(blockIdx.x);
  int t = TensorOfBlock(tensors, block);
  S sum = SquaresOf<S>(tensors.at[t], block - tensors.first_block[t]);
  sum = BlockSum<kThreads>(sum);
  if (threadIdx.x == 0) partial[block] = sum;
}

template <typename S>
__global__ void __launch_bounds__(kLastThreads)
    LastKernel(const S* partial, int count, S* to) {
  S sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kLastThreads) {
    sum += partial[i];
  }
  sum = BlockSum<kLastThreads>(sum);
  if (threadIdx.x == 0) *to = sum;
}

template <typename S>
cudaError_t Launch(const SquaredTensor* tensors, int count, S* partial, S* to,
                   cudaStream_t stream) {
  int all = 0;
  for (int first = 0; first < count; first += kMostTensors) {
    Tensors some;
    int blocks = 0;
    some.count = count - first < kMostTensors ? count - first : kMostTensors;
    for (int t = 0; t < some.count; ++t) {
      some.at[t] = tensors[first + t];
      some.first_block[t] = blocks;
      blocks += static_cast<int>(BlocksOf(some.at[t]));
    }
    some.first_block[some.count] = blocks;
    if (blocks > 0) {
      PieceKernel<S><<<blocks, kThreads, 0, stream>>>(some, partial + all);
    }
    all += blocks;
  }
  LastKernel<S><<<1, kLastThreads, 0, stream>>>(partial, all, to);
  return cudaGetLastError();
}

}  // namespace

int64_t SumSquaresBytes(const SquaredTensor* tensors, int count) {
  int64_t blocks = 0;
  for (int t = 0; t < count; ++t) blocks += BlocksOf(tensors[t]);
  return blocks * static_cast<int64_t>(sizeof(double));
}

cudaError_t SumSquares(const SquaredTensor* tensors, int count, void* workspace,
                       void* to, cudaStream_t stream) {
  if (count > 0 && tensors[0].element == Element::kF64) {
    return Launch(tensors, count, static_cast<double*>(workspace),
                  static_cast<double*>(to), stream);
  }
  return Launch(tensors, count, static_cast<float*>(workspace),
                static_cast<float*>(to), stream);
}

}  // namespace asyra::cuda
