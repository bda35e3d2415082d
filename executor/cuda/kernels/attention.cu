#include "executor/cuda/kernels/attention_tile.cuh"
#include "executor/cuda/kernels/number.cuh"

namespace asyra::cuda {
namespace {

// State of the rows of a tile while the keys go by.
template <typename A>
struct RowState {
  A largest[kTile];  // score so far
  A sum[kTile];      // of exp(score - largest)
  A factor[kTile];   // scale of the earlier sums for a new tile of keys
};

// Turns the scores in memory.weights to weights; a warp for each row.
template <typename A>
__device__ void Weigh(TileMemory<A>& memory, RowState<A>& rows) {
  int thread = threadIdx.y * kSide + threadIdx.x, lane = thread % 32;
  for (int i = thread / 32; i < kTile; i += kWarps) {
    A score = memory.weights[i][lane];
    A before = rows.largest[i], largest = Maximum(before, MaxOfWarp(score));
    bool none = largest == A(-INFINITY);
    A weight = none ? A(0) : exp(score - largest);
    A sum = SumOfWarp(weight), factor = none ? A(1) : exp(before - largest);
    memory.weights[i][lane] = weight;
    __syncwarp();
    if (lane != 0) continue;
    rows.largest[i] = largest;
    rows.sum[i] = rows.sum[i] * factor + sum;
    rows.factor[i] = factor;
  }
}

// The divisor of a row's sums, with exp(sink). Where all scores are -inf 0, for
// a result of 0, or NaN.
template <typename A>
__device__ A Total(const AttentionProblem& p, const AttentionData& data,
                   const RowState<A>& rows, int i, int64_t h, A* log_sum) {
  if (rows.largest[i] == A(-INFINITY) &&
      (data.sinks == nullptr || !p.empty_is_nan)) {
    *log_sum = p.empty_is_nan ? A(NAN) : A(INFINITY);
    return p.empty_is_nan ? A(NAN) : A(0);
  }
  A total = rows.sum[i];
  if (data.sinks != nullptr) {
    // May be inf where the sink has all the weight.
    total += exp(LoadElement<A>(data.sinks, p.sinks, h) - rows.largest[i]);
  }
  *log_sum = rows.largest[i] + log(total);
  if (data.sinks != nullptr && isinf(total)) {
    *log_sum = LoadElement<A>(data.sinks, p.sinks, h);
  }
  return total;
}

// A block for 32 rows of one head.
template <typename T>
__global__ void AttentionKernel(AttentionProblem p, AttentionData data, T* y,
                                typename SumOf<T>::Type* log_sums) {
  using A = typename SumOf<T>::Type;
  __shared__ TileMemory<A> memory;
  __shared__ RowState<A> rows;
  extern __shared__ __align__(8) unsigned char dynamic[];
  A* out = reinterpret_cast<A*>(dynamic);  // [kTile, e]

  int64_t tiles = (p.s + kTile - 1) / kTile, head = blockIdx.x / tiles;
  int64_t s0 = blockIdx.x % tiles * kTile, b = head / p.h, h = head % p.h;
  int64_t g = h / (p.h / p.g);
  auto q = RowsOf<T>(data.q, p.s, p.h, p.d, b, h);
  auto k = RowsOf<T>(data.k, p.t, p.g, p.d, b, g);
  auto v = RowsOf<T>(data.v, p.t, p.g, p.e, b, g);
  Sight sight(p, data, b);
  int x = threadIdx.x, thread = threadIdx.y * kSide + x;
  for (int64_t i = thread; i < kTile * p.e; i += kSide * kSide) out[i] = 0;
  if (thread < kTile) {
    rows.largest[thread] = A(-INFINITY);
    rows.sum[thread] = 0;
  }
  __syncthreads();

  for (int64_t t0 = 0; t0 < sight.length; t0 += kTile) {
    if (Skips(p, sight, s0, t0)) continue;
    A dots[2][2] = {};
    AddDots(q, s0, k, t0, memory, dots);
    for (int i = threadIdx.y; i < kTile; i += kSide) {
      for (int j = x; j < kTile; j += kSide) {
        memory.weights[i][j] = ScoreOf(p, data, sight, b, h, s0 + i, t0 + j,
                                       dots[i / kSide][j / kSide])
                                   .value;
      }
    }
    __syncthreads();
    Weigh(memory, rows);
    AddProducts(v, t0, rows.factor, memory, out);
  }

  __syncthreads();
  int64_t rows_left = min(p.s - s0, static_cast<int64_t>(kTile));
  for (int i = threadIdx.y; i < rows_left; i += kSide) {
    A log_sum;
    A total = Total(p, data, rows, i, h, &log_sum);
    if (x == 0 && log_sums != nullptr) {
      log_sums[head * p.s + s0 + i] = log_sum;
    }
    T* to = y + ((b * p.s + s0 + i) * p.h + h) * p.e;
    for (int64_t c = 0; c < p.e; c += kTile) {
      for (int64_t j = c + x; j < min(c + kTile, p.e); j += kSide) {
        to[j] = Narrow<T>(total == 0 ? A(0) : out[i * p.e + j] / total);
      }
    }
  }
}

// Blocks for each sequence; nearly always there is nothing to do.
constexpr unsigned kClearBlocks = 16;

__global__ void ClearKernel(const int32_t* lengths, int64_t elements,
                            uint16_t* y, int64_t rows, float* log_sums) {
  if (lengths[blockIdx.x] > 0) return;
  int64_t step = int64_t{gridDim.y} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < elements;
       i += step) {
    y[blockIdx.x * elements + i] = 0;
    if (log_sums != nullptr && i < rows) {
      log_sums[blockIdx.x * rows + i] = INFINITY;
    }
  }
}

__global__ void LengthsKernel(AttentionProblem p, const void* lengths,
                              int32_t* to) {
  for (int64_t b = threadIdx.x; b < p.b; b += blockDim.x) {
    int64_t given = LoadInteger(lengths, p.lengths, b);
    to[b] = static_cast<int32_t>(given < 0 ? 0 : given < p.t ? given : p.t);
    to[p.b + b] = static_cast<int32_t>(p.s);
  }
}

}  // namespace

bool FitsAttention(const AttentionProblem& p) {
  constexpr int64_t kRoom = 160 << 10;  // of the 227 KiB a block may have
  int64_t size = p.element == Element::kF64 ? 8 : 4;
  return kTile * (p.d + p.e) * size <= kRoom;
}

cudaError_t Attention(const AttentionProblem& p, const AttentionData& data,
                      void* y, void* log_sums, cudaStream_t stream) {
  int64_t blocks = (p.s + kTile - 1) / kTile * p.b * p.h;
  if (blocks == 0) return cudaSuccess;
  if (!IsGrid(blocks)) return cudaErrorInvalidConfiguration;
  return WithFloat(p.element, [&](auto element) {
    using T = decltype(element);
    using A = typename SumOf<T>::Type;
    int bytes = static_cast<int>(kTile * p.e * sizeof(A));
    cudaError_t error = cudaFuncSetAttribute(
        AttentionKernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
    AttentionKernel<T>
        <<<static_cast<unsigned>(blocks), dim3(kSide, kSide), bytes, stream>>>(
            p, data, static_cast<T*>(y), static_cast<A*>(log_sums));
    return cudaPeekAtLastError();
  });
}

cudaError_t WriteLengths(const AttentionProblem& p, const void* lengths,
                         int32_t* to, cudaStream_t stream) {
  LengthsKernel<<<1, 128, 0, stream>>>(p, lengths, to);
  return cudaPeekAtLastError();
}

cudaError_t ClearEmpty(const AttentionProblem& p, const int32_t* lengths,
                       void* y, void* log_sums, cudaStream_t stream) {
  dim3 grid(static_cast<unsigned>(p.b), kClearBlocks);
  ClearKernel<<<grid, 128, 0, stream>>>(lengths, p.s * p.h * p.e,
                                        static_cast<uint16_t*>(y), p.s * p.h,
                                        static_cast<float*>(log_sums));
  return cudaPeekAtLastError();
}

}  // namespace asyra::cuda
