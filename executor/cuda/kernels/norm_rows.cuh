// Rows of a matrix that a block or a warp reduces, one after the other, while
// the next ones are on their way to shared memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "executor/cuda/kernels/number.cuh"

namespace asyra::cuda {

constexpr int kWarp = 32;

template <typename T>
constexpr int kVector = 16 / sizeof(T);

template <typename T, int held>
struct Line {
  Pack<T, kVector<T>> at[held];
};

// The threads that have a row at a time: those of a block, or of a warp, which
// needs no barriers.
struct BlockTeam {
  static constexpr bool kIsWarp = false;
  static __device__ int Rank() { return threadIdx.x; }
  static __device__ int Size() { return blockDim.x; }
  static __device__ int64_t Index() { return blockIdx.x; }
  static __device__ int64_t Count() { return gridDim.x; }
};

struct WarpTeam {
  static constexpr bool kIsWarp = true;
  static __device__ int Rank() { return threadIdx.x % kWarp; }
  static __device__ int Size() { return kWarp; }
  static __device__ int64_t Index() {
    return int64_t{blockIdx.x} * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  }
  static __device__ int64_t Count() {
    return int64_t{gridDim.x} * (blockDim.x / kWarp);
  }
};

// The number of vector j of a thread.
template <typename Team>
__device__ int VectorAt(int j) {
  return j * Team::Size() + Team::Rank();
}

template <typename Team, typename T, int held>
__device__ void LoadLine(const T* row, int vectors, Line<T, held>* line) {
  const auto* from = reinterpret_cast<const Pack<T, kVector<T>>*>(row);
#pragma unroll
  for (int j = 0; j < held; ++j) {
    if (VectorAt<Team>(j) < vectors) line->at[j] = from[VectorAt<Team>(j)];
  }
}

// Rows that are under way to shared memory, up to `stages` at a time. A thread
// reads what it has copied itself: no barrier is needed.
template <typename Team, typename T, int held, int stages>
class Pipeline {
 public:
  using Vector = Pack<T, kVector<T>>;
  // Takes `lines` lines a row; `shared` holds stages x lines x held vectors for
  // each thread of the block.
  __device__ Pipeline(void* shared, int lines, int vectors)
      : mine_(static_cast<Vector*>(shared) + threadIdx.x),
        lines_(lines),
        vectors_(vectors) {}

  // Line `line` of the row that goes to `stage`.
  __device__ void Copy(int stage, int line, const T* row) const {
    const auto* from = reinterpret_cast<const Vector*>(row);
#pragma unroll
    for (int j = 0; j < held; ++j) {
      if (VectorAt<Team>(j) >= vectors_) continue;
      auto to =
          static_cast<unsigned>(__cvta_generic_to_shared(At(stage, line, j)));
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to),
                   "l"(from + VectorAt<Team>(j))
                   : "memory");
    }
  }
  // Ends a row, also an absent one.
  static __device__ void Commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  // Waits until all rows but the last `stages` - 2 that were committed have
  // arrived.
  static __device__ void Wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2) : "memory");
  }
  __device__ void Read(int stage, int line, Line<T, held>* to) const {
#pragma unroll
    for (int j = 0; j < held; ++j) {
      if (VectorAt<Team>(j) < vectors_) to->at[j] = *At(stage, line, j);
    }
  }

 private:
  __device__ Vector* At(int stage, int line, int j) const {
    return mine_ + ((stage * lines_ + line) * held + j) * blockDim.x;
  }

  Vector* mine_;
  int lines_;
  int vectors_;
};

// Sums over all threads of a warp, in each of them.
template <typename S>
__device__ void SumOfWarp(S* value) {
#pragma unroll
  for (int m = kWarp / 2; m > 0; m /= 2) {
    *value += __shfl_xor_sync(~0u, *value, m);
  }
}

// The same of a block.
template <typename S>
class BlockSum {
 public:
  // Sums of one call at most. `shared` holds so many sums by up to 32 warps,
  // twice: a second call may begin while threads still read what the first has
  // left.
  static constexpr int kMost = 3;
  __device__ explicit BlockSum(S* shared) : shared_(shared) {}

  template <int n>
  __device__ void operator()(S (&values)[n]) {
    static_assert(n <= kMost);
    S* of_warps = shared_ + phase_ * kMost * kWarp;
    phase_ ^= 1;
    int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    int warps = blockDim.x / kWarp;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      SumOfWarp(&values[i]);
      if (lane == 0) of_warps[i * kWarp + warp] = values[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < n; ++i) {
      values[i] = lane < warps ? of_warps[i * kWarp + lane] : S{0};
      SumOfWarp(&values[i]);
    }
  }

 private:
  S* shared_;
  int phase_ = 0;
};

template <typename S>
struct WarpSum {
  __device__ explicit WarpSum(S*) {}
  template <int n>
  __device__ void operator()(S (&values)[n]) {
#pragma unroll
    for (int i = 0; i < n; ++i) SumOfWarp(&values[i]);
  }
};

template <typename Team, typename S>
using TeamSum = std::conditional_t<Team::kIsWarp, WarpSum<S>, BlockSum<S>>;

}  // namespace asyra::cuda
