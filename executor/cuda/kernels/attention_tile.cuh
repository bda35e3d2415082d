// Shared by the attention kernels: blocks of 16 x 16 threads work on tiles of
// 32 rows by 32 rows, each thread on 2 x 2 elements that are 16 apart.
#pragma once

#include <cmath>

#include "executor/cuda/kernels/attention.h"
#include "executor/cuda/kernels/float_types.cuh"

namespace asyra::cuda {

constexpr int kTile = 32;
constexpr int kSide = kTile / 2;  // of a block of threads
constexpr int kWarps = kSide * kSide / 32;

// The rows of one head: `count` of `width` elements, `stride` apart.
template <typename T>
struct HeadRows {
  const T* data;
  int64_t count, width, stride;

  template <typename A>
  __device__ A At(int64_t row, int64_t column) const {
    if (row >= count || column >= width) return 0;
    return Widen<A>(data[row * stride + column]);
  }
};

// Returns the rows of one head of [b, rows, heads, width].
template <typename T>
__device__ HeadRows<T> RowsOf(const void* data, int64_t rows, int64_t heads,
                              int64_t width, int64_t b, int64_t h) {
  return {static_cast<const T*>(data) + (b * rows * heads + h) * width, rows,
          width, heads * width};
}

template <typename A>
struct TileMemory {
  A left[kTile][kTile + 1];
  A right[kTile][kTile + 1];
  A weights[kTile][kTile + 1];
};

// Adds a[a0 + i] . b[b0 + j] to the thread's part of a tile of i by j.
template <typename T, typename A>
__device__ void AddDots(const HeadRows<T>& a, int64_t a0, const HeadRows<T>& b,
                        int64_t b0, TileMemory<A>& memory, A (&sum)[2][2]) {
  int x = threadIdx.x, y = threadIdx.y;
  for (int64_t from = 0; from < a.width; from += kTile) {
    __syncthreads();
    for (int i = y; i < kTile; i += kSide) {
      for (int j = x; j < kTile; j += kSide) {
        memory.left[i][j] = a.template At<A>(a0 + i, from + j);
        memory.right[i][j] = b.template At<A>(b0 + i, from + j);
      }
    }
    __syncthreads();
#pragma unroll 8
    for (int c = 0; c < kTile; ++c) {
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
          sum[i][j] +=
              memory.left[y + i * kSide][c] * memory.right[x + j * kSide][c];
        }
      }
    }
  }
}

// into[i] = into[i] * factor[i] + the sum over j of weights[i][j] m[m0 + j].
// Each element of `into`, rows of m.width, belongs to one thread throughout.
template <typename T, typename A>
__device__ void AddProducts(const HeadRows<T>& m, int64_t m0, const A* factor,
                            TileMemory<A>& memory, A* into) {
  int x = threadIdx.x, y = threadIdx.y;
  for (int64_t from = 0; from < m.width; from += kTile) {
    __syncthreads();
    for (int i = y; i < kTile; i += kSide) {
      for (int j = x; j < kTile; j += kSide) {
        memory.right[i][j] = m.template At<A>(m0 + i, from + j);
      }
    }
    __syncthreads();
    A sum[2][2] = {};
#pragma unroll 8
    for (int c = 0; c < kTile; ++c) {
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
          sum[i][j] +=
              memory.weights[y + i * kSide][c] * memory.right[c][x + j * kSide];
        }
      }
    }
    for (int i = y; i < kTile; i += kSide) {
      for (int j = x; j < kTile; j += kSide) {
        if (from + j >= m.width) continue;
        A& to = into[i * m.width + from + j];
        to = to * (factor == nullptr ? A(1) : factor[i]) +
             sum[i / kSide][j / kSide];
      }
    }
  }
}

// The keys that the rows of one batch entry see.
struct Sight {
  int64_t first_row, length, window, window_after;

  __device__ Sight(const AttentionProblem& p, const AttentionData& data,
                   int64_t b)
      : first_row(p.first_row),
        length(p.keys),
        window(p.window),
        window_after(p.window_after) {
    if (data.lengths == nullptr) return;
    int64_t given = LoadInteger(data.lengths, p.lengths, b);
    if (p.at_end) first_row += given;
    length = given < p.keys ? given : p.keys;
  }
  __device__ bool Sees(int64_t s, int64_t key) const {
    int64_t row = first_row + s;
    return (window_after == 0 || key < row + window_after) &&
           (window == 0 || key > row - window);
  }
  // No row of [s, s + kTile) sees a key of [key, key + kTile).
  __device__ bool Blind(int64_t s, int64_t key) const {
    int64_t least = first_row + s, most = least + kTile - 1;
    return key >= length || (window_after > 0 && key >= most + window_after) ||
           (window > 0 && key + kTile - 1 <= least - window);
  }
};

// A tile of zero weights.
inline __device__ bool Skips(const AttentionProblem& p, const Sight& sight,
                             int64_t s, int64_t key) {
  if (key >= sight.length) return true;
  return p.hidden == -INFINITY && sight.Blind(s, key);
}

template <typename A>
struct Score {
  A value;  // -inf: no weight
  A slope;  // by the product of query and key, 0 where it does not count
};

// ir/ops/attention.h.
template <typename A>
__device__ Score<A> ScoreOf(const AttentionProblem& p,
                            const AttentionData& data, const Sight& sight,
                            int64_t b, int64_t h, int64_t s, int64_t key,
                            A product) {
  if (key >= sight.length || s >= p.s) return {A(-INFINITY), A(0)};
  if (data.starts != nullptr &&
      key < LoadInteger(data.starts, p.starts, b * p.s + s)) {
    return {A(-INFINITY), A(0)};
  }
  bool sees = sight.Sees(s, key);
  A mask = 0;
  if (data.mask != nullptr) {
    mask = LoadElement<A>(data.mask, p.mask,
                          b * p.mask_strides[0] + h * p.mask_strides[1] +
                              s * p.mask_strides[2] + key * p.mask_strides[3]);
    if (p.mask == Element::kBool) {
      sees = sees && mask != 0;
      mask = 0;
    }
  }
  if (!sees) return {static_cast<A>(p.hidden) + mask, A(0)};
  A scale = static_cast<A>(p.scale), value = product * scale, slope = scale;
  if (p.softcap > 0) {
    A cap = static_cast<A>(p.softcap);
    A bounded = tanh(value / cap);
    value = cap * bounded;
    slope *= 1 - bounded * bounded;
  }
  return {value + mask, slope};
}

// NaN where either is.
template <typename A>
__device__ A Maximum(A a, A b) {
  return a < b || b != b ? b : a;
}

template <typename A>
__device__ A MaxOfWarp(A value) {
  for (int lane = 16; lane > 0; lane /= 2) {
    value = Maximum(value, __shfl_xor_sync(~0u, value, lane));
  }
  return value;
}

template <typename A>
__device__ A SumOfWarp(A value) {
  for (int lane = 16; lane > 0; lane /= 2) {
    value += __shfl_xor_sync(~0u, value, lane);
  }
  return value;
}

}  // namespace asyra::cuda
