// Products of few rows with weights [n, k], y = x w^T: each weight is read
// once, and the time is that of reading. Weights are the left operand of tensor
// cores, TILES tiles of 16, rows of x the right one, MT tiles of 8. A block has
// some columns of y, kWidth of them at once; its warps share out what is
// summed, and their sums meet in shared memory. Elements along the sum are
// taken in whatever order makes copies of 16 bytes the operands of products.

struct Params {
  const void *x, *w, *residual, *bias;
  void* y;
  int64 x_stride, w_stride;  // from one stored row to the next
  int m, n, k;
  int columns;  // of a block
};

constexpr int kWidth = 16 * TILES;  // columns of y
constexpr int kRows = 8 * MT;
// Elements of the sum that a warp takes at once, 8 for each of four lanes.
constexpr int kStep = 32;

using Sums = float[TILES][MT][4];

// A warp's part of shared memory: a ring of steps on their way. A lane reads
// what it has copied itself, so that nothing but its own copies is waited for:
// 16 bytes of each row and each half of a tile.
constexpr uint32 kStepBytes = 32 * 16 * (2 * TILES + MT);

__device__ __forceinline__ void Copy(uint32 to, const uint16* from,
                                     bool valid) {
  int bytes = valid ? 16 : 0;  // the others are 0
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
               "l"(from), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ uint4 Read16(uint32 from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from)
               : "memory");
  return v;
}

__device__ __forceinline__ void Product(float (&sum)[4], uint32 a0, uint32 a1,
                                        uint32 a2, uint32 a3, uint32 b0,
                                        uint32 b1) {
#if BF16
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
#endif
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Returns the address of a lane's piece of a step: 2 * TILES of weights, then
// MT of rows.
__device__ __forceinline__ uint32 PieceAt(uint32 step, int i) {
  return step + (i * 32 + threadIdx.x % 32) * 16;
}

// Copies a step, the first of which are element `from` of the sum and column
// `first`.
__device__ __forceinline__ void CopyStep(const Params& p, int first, int end,
                                         int from, uint32 step) {
  const uint16* x = static_cast<const uint16*>(p.x);
  const uint16* w = static_cast<const uint16*>(p.w);
  int own = threadIdx.x % 32 / 4, at = from + threadIdx.x % 4 * 8;
#pragma unroll
  for (int i = 0; i < 2 * TILES; ++i) {
    int column = first + 8 * i + own;
    bool valid = at < p.k && column < end;
    Copy(PieceAt(step, i), valid ? w + column * p.w_stride + at : w, valid);
  }
#pragma unroll
  for (int i = 0; i < MT; ++i) {
    int row = 8 * i + own;
    bool valid = at < p.k && row < p.m;
    Copy(PieceAt(step, 2 * TILES + i), valid ? x + row * p.x_stride + at : x,
         valid);
  }
}

// Adds the products of a step.
__device__ __forceinline__ void Add(uint32 step, Sums& sums) {
  uint4 rows[MT];
#pragma unroll
  for (int i = 0; i < MT; ++i) rows[i] = Read16(PieceAt(step, 2 * TILES + i));
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
    uint4 low = Read16(PieceAt(step, 2 * tile));
    uint4 high = Read16(PieceAt(step, 2 * tile + 1));
#pragma unroll
    for (int i = 0; i < MT; ++i) {
      Product(sums[tile][i], low.x, high.x, low.y, high.y, rows[i].x,
              rows[i].y);
      Product(sums[tile][i], low.z, high.z, low.w, high.w, rows[i].z,
              rows[i].w);
    }
  }
}

// Sums all steps of a warp for the columns [first, end).
__device__ __forceinline__ void Sum(const Params& p, int first, int end,
                                    uint32 ring, Sums& sums) {
  int warp = threadIdx.x / 32;
  int steps = (p.k + kStep - 1) / kStep;  // of all warps, in turn
  auto copy = [&](int i, int stage) {
    int step = warp + i * WARPS;
    if (step < steps) {
      CopyStep(p, first, end, step * kStep, ring + stage * kStepBytes);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) copy(i, i);
  int stage = 0;
  for (int i = 0; warp + i * WARPS < steps; ++i) {
    copy(i + STAGES - 1, stage == 0 ? STAGES - 1 : stage - 1);
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
    Add(ring + stage * kStepBytes, sums);
    if (++stage == STAGES) stage = 0;
  }
}

// A column more than there are, so that lanes write to different banks.
constexpr int kStride = kWidth + 1;

// Puts a warp's sums into shared memory, [kRows, kStride].
__device__ __forceinline__ void Put(const Sums& sums, float* to) {
  int own = threadIdx.x % 32 / 4, pair = threadIdx.x % 4 * 2;
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
    for (int i = 0; i < MT * 4; ++i) {
      int row = 8 * (i / 4) + pair + i % 2;
      to[row * kStride + 16 * tile + own + i / 2 % 2 * 8] =
          sums[tile][i / 4][i % 4];
    }
  }
}

__device__ __forceinline__ float Activate(float x) {
#if ACTIVATION == 1
  return fmaxf(x, 0);
#elif ACTIVATION == 2
  return 0.5f * x *
         (1 + Tanh(0.7978845608028654f * (x + 0.044715f * x * x * x)));
#else
  return x;
#endif
}

// Adds up the warps' sums in their order and stores columns [first, end).
__device__ __forceinline__ void Store(const Params& p, int first, int end,
                                      const float* parts) {
  for (int i = threadIdx.x; i < kRows * kWidth; i += 32 * WARPS) {
    int row = i / kWidth, column = first + i % kWidth;
    if (row >= p.m || column >= end) continue;
    float sum = 0;
    for (int warp = 0; warp < WARPS; ++warp) {
      sum += parts[(warp * kRows + row) * kStride + i % kWidth];
    }
    int64 at = int64{row} * p.n + column;
#if RESIDUAL
    sum += LoadFloat(p.residual, RESULT_TYPE, at);
#endif
#if BIAS
    sum += LoadFloat(p.bias, TYPE, column);
#endif
    sum = Activate(sum);
#if F32_RESULT
    static_cast<float*>(p.y)[at] = sum;
#else
    static_cast<uint16*>(p.y)[at] = Pack(sum, sum) & 0xffff;
#endif
  }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS)
    few_rows(const __grid_constant__ Params p) {
  extern __shared__ uint4 memory[];  // rings, then sums
  float* parts = reinterpret_cast<float*>(memory);
  int warp = threadIdx.x / 32, begin = blockIdx.x * p.columns;
  uint32 ring = static_cast<uint32>(__cvta_generic_to_shared(memory)) +
                warp * STAGES * kStepBytes;
  int block_end = min(p.n, begin + p.columns);
  for (int first = begin; first < block_end; first += kWidth) {
    int end = min(block_end, first + kWidth);
    Sums sums = {};
    Sum(p, first, end, ring, sums);
    __syncthreads();  // nothing is read from the rings
    Put(sums, parts + warp * kRows * kStride);
    __syncthreads();
    Store(p, first, end, parts);
    __syncthreads();
  }
}
