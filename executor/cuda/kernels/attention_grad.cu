// With weights p = exp(score - log_sum) and dp[t] = dy . v[t], the gradient of
// a score is p (dp - mean), where mean, the row's sum of p dp, is dy . y.
#include "executor/cuda/kernels/attention_tile.cuh"
#include "executor/cuda/kernels/number.cuh"

namespace asyra::cuda {
namespace {

// Statistics of rows of [b, h, s].
template <typename A>
struct Statistics {
  const A *log_sums, *means;
};

template <typename A>
Statistics<A> StatisticsOf(const AttentionData& data, const void* means) {
  return {static_cast<const A*>(data.log_sums), static_cast<const A*>(means)};
}

// Values of a pair of a query and a key.
template <typename A>
struct Pair {
  A weight;  // 0 where the row does not see the key
  A score;   // gradient of it
  A slope;
};

template <typename A>
__device__ Pair<A> PairOf(const AttentionProblem& p, const AttentionData& data,
                          const Statistics<A>& rows, const Sight& sight,
                          int64_t b, int64_t h, int64_t s, int64_t key,
                          A product, A dp) {
  Score<A> score = ScoreOf(p, data, sight, b, h, s, key, product);
  if (s >= p.s || score.value == A(-INFINITY)) return {0, 0, 0};
  int64_t row = (b * p.h + h) * p.s + s;
  A weight = exp(score.value - rows.log_sums[row]);
  return {weight, weight * (dp - rows.means[row]), score.slope};
}

struct Place {
  int64_t b, h, g, first;  // of a tile of rows
};

__device__ Place PlaceOf(const AttentionProblem& p) {
  int64_t tiles = (p.s + kTile - 1) / kTile, head = blockIdx.x / tiles;
  int64_t h = head % p.h;
  return {head / p.h, h, h / (p.h / p.g), blockIdx.x % tiles * kTile};
}

// A warp for each row.
template <typename T, typename A>
__global__ void MeansKernel(AttentionProblem p, AttentionData data, A* means) {
  int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= p.b * p.h * p.s) return;
  int64_t s = row % p.s, h = row / p.s % p.h, b = row / p.s / p.h;
  int64_t at = ((b * p.s + s) * p.h + h) * p.e;
  const T* y = static_cast<const T*>(data.y) + at;
  const T* dy = static_cast<const T*>(data.dy) + at;
  A sum = 0;
  for (int64_t i = threadIdx.x % 32; i < p.e; i += 32) {
    sum += Widen<A>(y[i]) * Widen<A>(dy[i]);
  }
  sum = SumOfWarp(sum);
  if (threadIdx.x % 32 == 0) means[row] = sum;
}

template <typename T, typename A>
__device__ void WriteRows(const A* from, int64_t first, int64_t rows,
                          int64_t heads, int64_t width, int64_t b, int64_t h,
                          T* to) {
  for (int i = threadIdx.y; i < kTile && first + i < rows; i += kSide) {
    T* row = to + ((b * rows + first + i) * heads + h) * width;
    for (int64_t c = 0; c < width; c += kTile) {
      for (int64_t j = c + threadIdx.x; j < min(c + kTile, width); j += kSide) {
        row[j] = Narrow<T>(from[i * width + j]);
      }
    }
  }
}

__device__ int ThreadOfBlock() { return threadIdx.y * kSide + threadIdx.x; }

// A block for 32 rows of one head.
template <typename T, typename A>
__global__ void GradQKernel(AttentionProblem p, AttentionData data,
                            Statistics<A> rows, T* dq) {
  __shared__ TileMemory<A> memory;
  extern __shared__ __align__(8) unsigned char dynamic[];
  A* out = reinterpret_cast<A*>(dynamic);  // [kTile, d]
  Place at = PlaceOf(p);
  auto q = RowsOf<T>(data.q, p.s, p.h, p.d, at.b, at.h);
  auto k = RowsOf<T>(data.k, p.t, p.g, p.d, at.b, at.g);
  auto v = RowsOf<T>(data.v, p.t, p.g, p.e, at.b, at.g);
  auto dy = RowsOf<T>(data.dy, p.s, p.h, p.e, at.b, at.h);
  Sight sight(p, data, at.b);
  for (int64_t i = ThreadOfBlock(); i < kTile * p.d; i += kSide * kSide) {
    out[i] = 0;
  }
  for (int64_t t0 = 0; t0 < sight.length; t0 += kTile) {
    if (Skips(p, sight, at.first, t0)) continue;
    A dots[2][2] = {}, dp[2][2] = {};
    AddDots(q, at.first, k, t0, memory, dots);
    AddDots(dy, at.first, v, t0, memory, dp);
    for (int i = threadIdx.y; i < kTile; i += kSide) {
      for (int j = threadIdx.x; j < kTile; j += kSide) {
        Pair<A> pair =
            PairOf(p, data, rows, sight, at.b, at.h, at.first + i, t0 + j,
                   dots[i / kSide][j / kSide], dp[i / kSide][j / kSide]);
        memory.weights[i][j] = pair.score * pair.slope;
      }
    }
    AddProducts<T, A>(k, t0, nullptr, memory, out);
  }
  __syncthreads();
  WriteRows(out, at.first, p.s, p.h, p.d, at.b, at.h, dq);
}

// A block for 32 keys of one key head, over all rows of its query heads.
template <typename T, typename A>
__global__ void GradKVKernel(AttentionProblem p, AttentionData data,
                             Statistics<A> rows, T* dk, T* dv) {
  __shared__ TileMemory<A> memory;
  extern __shared__ __align__(8) unsigned char dynamic[];
  A* out_k = reinterpret_cast<A*>(dynamic);  // [kTile, d]
  A* out_v = out_k + kTile * p.d;            // [kTile, e]
  int64_t tiles = (p.t + kTile - 1) / kTile, head = blockIdx.x / tiles;
  int64_t t0 = blockIdx.x % tiles * kTile, b = head / p.g, g = head % p.g;
  auto k = RowsOf<T>(data.k, p.t, p.g, p.d, b, g);
  auto v = RowsOf<T>(data.v, p.t, p.g, p.e, b, g);
  Sight sight(p, data, b);
  for (int64_t i = ThreadOfBlock(); i < kTile * (p.d + p.e);
       i += kSide * kSide) {
    out_k[i] = 0;
  }
  int64_t group = p.h / p.g;
  for (int64_t h = g * group; h < (g + 1) * group; ++h) {
    auto q = RowsOf<T>(data.q, p.s, p.h, p.d, b, h);
    auto dy = RowsOf<T>(data.dy, p.s, p.h, p.e, b, h);
    for (int64_t s0 = 0; s0 < p.s; s0 += kTile) {
      if (Skips(p, sight, s0, t0)) continue;
      A dots[2][2] = {}, dp[2][2] = {};
      AddDots(k, t0, q, s0, memory, dots);
      AddDots(v, t0, dy, s0, memory, dp);
      Pair<A> pairs[2][2];
      for (int i = threadIdx.y; i < kTile; i += kSide) {
        for (int j = threadIdx.x; j < kTile; j += kSide) {
          Pair<A>& pair = pairs[i / kSide][j / kSide];
          pair = PairOf(p, data, rows, sight, b, h, s0 + j, t0 + i,
                        dots[i / kSide][j / kSide], dp[i / kSide][j / kSide]);
          memory.weights[i][j] = pair.weight;
        }
      }
      AddProducts<T, A>(dy, s0, nullptr, memory, out_v);
      __syncthreads();
      for (int i = threadIdx.y; i < kTile; i += kSide) {
        for (int j = threadIdx.x; j < kTile; j += kSide) {
          const Pair<A>& pair = pairs[i / kSide][j / kSide];
          memory.weights[i][j] = pair.score * pair.slope;
        }
      }
      AddProducts<T, A>(q, s0, nullptr, memory, out_k);
    }
  }
  __syncthreads();
  WriteRows(out_k, t0, p.t, p.g, p.d, b, g, dk);
  WriteRows(out_v, t0, p.t, p.g, p.e, b, g, dv);
}

// The sum over the threads of a block of one warp's width of warps.
template <typename A>
__device__ A SumOfBlock(A value) {
  __shared__ A parts[kWarps];
  value = SumOfWarp(value);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  A sum = 0;
  for (A part : parts) sum += part;
  return sum;
}

// A block for each element of the mask, over all pairs that it applies to.
template <typename T, typename A>
__global__ void GradMaskKernel(AttentionProblem p, AttentionData data,
                               Statistics<A> rows, void* dmask) {
  const int64_t full[4] = {p.b, p.h, p.s, p.t};
  int64_t first[4], size[4], rest = blockIdx.x, pairs = 1;
  for (int i = 3; i >= 0; --i) {
    bool own = p.mask_strides[i] != 0;
    first[i] = own ? rest % full[i] : 0;
    size[i] = own ? 1 : full[i];
    if (own) rest /= full[i];
    pairs *= size[i];
  }
  A sum = 0;
  for (int64_t n = threadIdx.x; n < pairs; n += blockDim.x) {
    int64_t at[4], left = n;
    for (int i = 3; i >= 0; --i) {
      at[i] = first[i] + left % size[i];
      left /= size[i];
    }
    auto [b, h, s, t] = at;
    Sight sight(p, data, b);
    if (t >= sight.length) continue;
    int64_t g = h / (p.h / p.g);
    auto q = RowsOf<T>(data.q, p.s, p.h, p.d, b, h);
    auto k = RowsOf<T>(data.k, p.t, p.g, p.d, b, g);
    auto v = RowsOf<T>(data.v, p.t, p.g, p.e, b, g);
    auto dy = RowsOf<T>(data.dy, p.s, p.h, p.e, b, h);
    A product = 0, dp = 0;
    for (int64_t c = 0; c < p.d; ++c) {
      product += q.template At<A>(s, c) * k.template At<A>(t, c);
    }
    for (int64_t c = 0; c < p.e; ++c) {
      dp += dy.template At<A>(s, c) * v.template At<A>(t, c);
    }
    sum += PairOf(p, data, rows, sight, b, h, s, t, product, dp).score;
  }
  sum = SumOfBlock(sum);
  if (threadIdx.x != 0) return;
  int64_t to = blockIdx.x;
  StoreElement(dmask, p.mask, to, sum);
}

// A block for each head: a sink has weight, and its dp is 0.
template <typename A>
__global__ void GradSinksKernel(AttentionProblem p, AttentionData data,
                                Statistics<A> rows, void* dsinks) {
  int64_t h = blockIdx.x;
  A sink = LoadElement<A>(data.sinks, p.sinks, h), sum = 0;
  for (int64_t n = threadIdx.x; n < p.b * p.s; n += blockDim.x) {
    int64_t row = (n / p.s * p.h + h) * p.s + n % p.s;
    sum -= exp(sink - rows.log_sums[row]) * rows.means[row];
  }
  sum = SumOfBlock(sum);
  if (threadIdx.x != 0) return;
  StoreElement(dsinks, p.sinks, h, sum);
}

constexpr dim3 kBlock(kSide, kSide);

int64_t RowBlocks(const AttentionProblem& p) {
  return (p.s + kTile - 1) / kTile * p.b * p.h;
}

}  // namespace

int64_t AttentionMeansBytes(const AttentionProblem& p) {
  return p.b * p.h * p.s * (p.element == Element::kF64 ? 8 : 4);
}

cudaError_t AttentionMeans(const AttentionProblem& p, const AttentionData& data,
                           void* means, cudaStream_t stream) {
  int64_t rows = p.b * p.h * p.s;
  if (rows == 0) return cudaSuccess;
  int64_t blocks = (rows + kWarps - 1) / kWarps;
  if (!IsGrid(blocks)) return cudaErrorInvalidConfiguration;
  return WithFloat(p.element, [&](auto element) {
    using T = decltype(element);
    using A = typename SumOf<T>::Type;
    MeansKernel<T, A>
        <<<static_cast<unsigned>(blocks), kWarps * 32, 0, stream>>>(
            p, data, static_cast<A*>(means));
    return cudaPeekAtLastError();
  });
}

cudaError_t AttentionGradQ(const AttentionProblem& p, const AttentionData& data,
                           const void* means, void* dq, cudaStream_t stream) {
  int64_t blocks = RowBlocks(p);
  if (blocks == 0) return cudaSuccess;
  if (!IsGrid(blocks)) return cudaErrorInvalidConfiguration;
  return WithFloat(p.element, [&](auto element) {
    using T = decltype(element);
    using A = typename SumOf<T>::Type;
    int bytes = static_cast<int>(kTile * p.d * sizeof(A));
    cudaError_t error = cudaFuncSetAttribute(
        GradQKernel<T, A>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
    GradQKernel<T, A><<<static_cast<unsigned>(blocks), kBlock, bytes, stream>>>(
        p, data, StatisticsOf<A>(data, means), static_cast<T*>(dq));
    return cudaPeekAtLastError();
  });
}

cudaError_t AttentionGradKV(const AttentionProblem& p,
                            const AttentionData& data, const void* means,
                            void* dk, void* dv, cudaStream_t stream) {
  int64_t blocks = (p.t + kTile - 1) / kTile * p.b * p.g;
  if (blocks == 0) return cudaSuccess;
  if (!IsGrid(blocks)) return cudaErrorInvalidConfiguration;
  return WithFloat(p.element, [&](auto element) {
    using T = decltype(element);
    using A = typename SumOf<T>::Type;
    int bytes = static_cast<int>(kTile * (p.d + p.e) * sizeof(A));
    cudaError_t error = cudaFuncSetAttribute(
        GradKVKernel<T, A>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
    GradKVKernel<T, A>
        <<<static_cast<unsigned>(blocks), kBlock, bytes, stream>>>(
            p, data, StatisticsOf<A>(data, means), static_cast<T*>(dk),
            static_cast<T*>(dv));
    return cudaPeekAtLastError();
  });
}

cudaError_t AttentionGradMask(const AttentionProblem& p,
                              const AttentionData& data, const void* means,
                              void* dmask, cudaStream_t stream) {
  const int64_t full[4] = {p.b, p.h, p.s, p.t};
  int64_t elements = 1;
  for (int i = 0; i < 4; ++i) elements *= p.mask_strides[i] ? full[i] : 1;
  if (elements == 0) return cudaSuccess;
  if (!IsGrid(elements)) return cudaErrorInvalidConfiguration;
  return WithFloat(p.element, [&](auto element) {
    using T = decltype(element);
    using A = typename SumOf<T>::Type;
    GradMaskKernel<T, A>
        <<<static_cast<unsigned>(elements), kWarps * 32, 0, stream>>>(
            p, data, StatisticsOf<A>(data, means), dmask);
    return cudaPeekAtLastError();
  });
}

cudaError_t AttentionGradSinks(const AttentionProblem& p,
                               const AttentionData& data, const void* means,
                               void* dsinks, cudaStream_t stream) {
  if (p.h == 0) return cudaSuccess;
  return WithFloat(p.element, [&](auto element) {
    using A = typename SumOf<decltype(element)>::Type;
    GradSinksKernel<A><<<static_cast<unsigned>(p.h), kWarps * 32, 0, stream>>>(
        p, data, StatisticsOf<A>(data, means), dsinks);
    return cudaPeekAtLastError();
  });
}

}  // namespace asyra::cuda
