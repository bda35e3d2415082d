// Attention of BM rows of one head: a producer warp group copies tiles of keys
// and values, consumer warp groups of 64 rows each compute. The products of a
// tile with keys run beside the exponentials of the tile before.

constexpr uint32 kQPanel = BM * kRowBytes, kKVPanel = BN * kRowBytes;
constexpr uint32 kQBytes = kPanelsD * kQPanel;
constexpr uint32 kKBytes = kPanelsD * kKVPanel, kVBytes = kPanelsE * kKVPanel;
constexpr int kPairs = BN / 8;

struct Shared {
  uint32 q, k, v, mask;  // of stage 0
  uint32 q_full, k_full, k_empty, v_full, v_empty;
};

__device__ __forceinline__ void Produce(const Params& p, const Shared& shared,
                                        int b, int h, int m, int n_from,
                                        int n_to) {
  int g = h / (p.h / p.g);
  Expect(shared.q_full, kQBytes);
  CopyPanels<kPanelsD>(&p.q, shared.q, kQPanel, shared.q_full, h, m * BM, b);
  Stage stage;
  for (int n = n_to - 1; n >= n_from; --n) {
    int kind = TileKind(p, b, h, m, n);
    if (kind == 0) continue;
    uint32 at = 8 * stage.at;
    Wait(shared.k_empty + at, stage.phase ^ 1);
    Expect(shared.k_full + at, kKBytes + (kind == 1 ? kMaskBytes : 0));
#if MASK_COPIES
    if (kind == 1) {
      CopyMask(p, shared.mask + stage.at * kMaskBytes, shared.k_full + at, b, h,
               m * BM, n * BN);
    }
#endif
    CopyPanels<kPanelsD>(&p.k, shared.k + stage.at * kKBytes, kKVPanel,
                         shared.k_full + at, g, n * BN, b);
    Wait(shared.v_empty + at, stage.phase ^ 1);
    Expect(shared.v_full + at, kVBytes);
    CopyPanels<kPanelsE>(&p.v, shared.v + stage.at * kVBytes, kKVPanel,
                         shared.v_full + at, g, n * BN, b);
    stage.Next(STAGES);
  }
}

// Scores are kept as products where they only have to be scaled (kFactor), else
// as they are.
constexpr bool kPlain = !CAP && MASK < 2;

struct Rows {
  int first;  // the thread has this row and the one 8 behind it
  float largest[2] = {NEVER, NEVER};
  float sum[2] = {0, 0};  // of this thread's columns
};

// Scores of a tile, where row i of the thread has elements 4 j + 2 i of s.
// `plain`: mask and starts say nothing here; `whole`: all rows see all keys but
// for the mask. `mask`: its tile, where copies bring it.
__device__ __forceinline__ void Score(const Params& p, const Sight& sight,
                                      const Rows& rows, uint32 mask, int b,
                                      int h, int n, int column, bool plain,
                                      bool whole, float (&s)[BN / 2]) {
#if CAP
  float inner = p.scale / p.softcap;
#endif
#pragma unroll
  for (int i = 0; i < BN / 2; ++i) {
#if CAP
    s[i] = p.softcap * Tanh(s[i] * inner);
#elif MASK >= 2
    s[i] *= p.scale;
#endif
  }
#if MASK_COPIES
  if (!plain) {
    int first = (threadIdx.x / 32 - 4) * 16;  // behind the producer's warps
#pragma unroll
    for (int j = 0; j < kPairs; j += 2) {
      float added[4][2];
      ReadMask<false>(mask, first, 8 * j, added);
#pragma unroll
      for (int i = 0; i < 8; ++i) s[4 * j + i] += added[i / 2][i % 2];
    }
  }
#elif MASK
  if (!plain) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      int row = min(rows.first + 8 * r, p.s - 1);
      int64 at = MaskRow(p, b, h, row);
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        int key = n * BN + 8 * j + column;
        float &low = s[4 * j + 2 * r], &high = s[4 * j + 2 * r + 1];
#if MASK == 1
        if (key < p.t && !Shows(p, at + key * MASK_KEYS)) low = NEVER;
        if (key + 1 < p.t && !Shows(p, at + (key + 1) * MASK_KEYS)) {
          high = NEVER;
        }
#else
        if (key + 1 < p.t) {
          float2 added = AddedToPair(p, at + key * MASK_KEYS);
          low += added.x;
          high += added.y;
        } else if (key < p.t) {
          low += LoadFloat(p.mask, MASK_TYPE, at + key * MASK_KEYS);
        }
#endif
      }
    }
  }
#endif
#if STARTS
  if (!plain) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      int64 before = StartOf(p, b, rows.first + 8 * r) - n * BN - column;
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        if (8 * j < before) s[4 * j + 2 * r] = NEVER;
        if (8 * j + 1 < before) s[4 * j + 2 * r + 1] = NEVER;
      }
    }
  }
#endif
  if (whole) return;
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int row = rows.first + (i / 2) * 8, key = n * BN + 8 * j + column + i % 2;
      if (!sight.Sees(p, row, key)) {
        s[4 * j + i] = NEVER;
      }
    }
  }
}

// Turns scores to weights, whose sums go to rows.sum; `scale` gets the factors
// of what was summed before.
__device__ __forceinline__ void Weigh(const Params& p, Rows& rows,
                                      float (&s)[BN / 2], float (&scale)[2]) {
  float factor = kPlain ? p.scale * kLog2E : kLog2E;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float largest = rows.largest[r];
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      largest = fmaxf(largest, fmaxf(s[4 * j + 2 * r], s[4 * j + 2 * r + 1]));
    }
    largest = MaxOfQuad(largest);
    float base = largest == NEVER ? 0 : largest;
    scale[r] = Exp2((rows.largest[r] - base) * factor);
    rows.largest[r] = largest;
    float sum = 0, offset = base * factor;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& x = s[4 * j + 2 * r + i];
#if MASK >= 2
        x = Exp2((x - base) * factor);
#else
        x = Exp2(x * factor - offset);
#endif
        sum += x;
      }
    }
    rows.sum[r] = rows.sum[r] * scale[r] + sum;
  }
}

__device__ __forceinline__ void ProductWithKeys(uint32 q, uint32 k,
                                                float (&s)[BN / 2]) {
  BeginProducts();
#pragma unroll
  for (int i = 0; i < kStepsD; ++i) {
    ProductSS(s, AlongRows(q + i / 4 * kQPanel + i % 4 * 32),
              AlongRows(k + i / 4 * kKVPanel + i % 4 * 32), i > 0);
  }
  EndProducts();
}

__device__ __forceinline__ void ProductWithValues(uint32 (&weights)[BN / 4],
                                                  uint32 v,
                                                  float (&out)[NE / 2]) {
  BeginProducts();
#pragma unroll
  for (int i = 0; i < BN / 16; ++i) {
    ProductRS(out, &weights[4 * i],
              AlongColumns(v + i * 16 * kRowBytes, kKVPanel), 1);
  }
  EndProducts();
}

__device__ __forceinline__ void PackWeights(const float (&s)[BN / 2],
                                            uint32 (&weights)[BN / 4]) {
#pragma unroll
  for (int i = 0; i < BN / 4; ++i) weights[i] = Pack(s[2 * i], s[2 * i + 1]);
}

struct Finished {
  float factor, log_sum;
};

// Returns the factor of a row's sums and its log sum; ir/ops/attention.h says
// which rows are 0 or NaN.
__device__ __forceinline__ Finished Finish(const Params& p, float largest,
                                           float sum, int h) {
  if (kPlain) largest *= p.scale;
#if SINKS
  float sink = LoadFloat(p.sinks, SINK_TYPE, h);
#endif
  bool none = largest == NEVER && sum == 0;  // not NaN
  if (none && (!SINKS || !p.empty_is_nan)) {
    return p.empty_is_nan ? Finished{NAN32, NAN32} : Finished{0, ENDLESS};
  }
#if SINKS
  sum += Exp2((sink - largest) * kLog2E);
  if (sum == ENDLESS) return {0, sink};
#endif
  return {1 / sum, largest + kLn2 * __log2f(sum)};
}

__device__ __forceinline__ void Store(const Params& p, const Rows& rows, int b,
                                      int h, int column,
                                      const float (&out)[NE / 2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = SumOfQuad(rows.sum[r]);
    int row = rows.first + 8 * r;
    if (row >= p.s) continue;
    Finished end = Finish(p, rows.largest[r], sum, h);
    if (p.log_sums != nullptr && column == 0) {
      static_cast<float*>(p.log_sums)[(int64{b} * p.h + h) * p.s + row] =
          end.log_sum;
    }
    uint16* to = static_cast<uint16*>(p.y) +
                 ((int64{b} * p.s + row) * p.h + h) * E + column;
    // A row without weights may have sums of nothing, or NaN from values that
    // it does not see.
    bool none = end.factor == 0;
#pragma unroll
    for (int j = 0; j < NE / 8; ++j) {
      if (8 * j >= E) break;
      float low = out[4 * j + 2 * r], high = out[4 * j + 2 * r + 1];
      *reinterpret_cast<uint32*>(to + 8 * j) =
          none ? 0 : Pack(low * end.factor, high * end.factor);
    }
  }
}

// Returns the tile before `n` that some row of the block may see; below n_from:
// none.
__device__ __forceinline__ int TileBefore(const Params& p, int b, int h, int m,
                                          int n, int n_from, int* kind) {
  do {
    --n;
  } while (n >= n_from && (*kind = TileKind(p, b, h, m, n)) == 0);
  return n;
}

__device__ __forceinline__ void Consume(const Params& p, const Shared& shared,
                                        const Sight& sight, int b, int h, int m,
                                        int n_from, int n_to, int group) {
  int thread = threadIdx.x % 128, lane = thread % 32;
  int column = lane % 4 * 2;
  Rows rows;
  rows.first = m * BM + group * 64 + thread / 32 * 16 + lane / 4;
  uint32 q = shared.q + group * 64 * kRowBytes;
  float out[NE / 2];
#pragma unroll
  for (int i = 0; i < NE / 2; ++i) out[i] = 0;
  int kind = 0, n = TileBefore(p, b, h, m, n_to, n_from, &kind);
  if (n < n_from) return Store(p, rows, b, h, column, out);

  float s[BN / 2], scale[2];
  uint32 weights[BN / 4];
  Stage keys, values;
  auto score = [&] {
    bool whole = sight.SeesAll(p, m * BM, BM, n * BN, BN);
    uint32 empty = shared.k_empty + 8 * keys.at;
    if (!MASK_COPIES && thread == 0) Arrive(empty);
    Score(p, sight, rows, shared.mask + keys.at * kMaskBytes, b, h, n, column,
          kind == 2, whole, s);
#if MASK_COPIES
    Meet(1 + group, 128);  // all warps have read the mask
    if (thread == 0) Arrive(empty);
#endif
    keys.Next(STAGES);
  };
  Wait(shared.q_full, 0);
  Wait(shared.k_full, 0);
  ProductWithKeys(q, shared.k, s);
  WaitProducts<0>();
  Hold(s);
  score();
  Weigh(p, rows, s, scale);
  PackWeights(s, weights);
  while ((n = TileBefore(p, b, h, m, n, n_from, &kind)) >= n_from) {
    Wait(shared.k_full + 8 * keys.at, keys.phase);
    ProductWithKeys(q, shared.k + keys.at * kKBytes, s);
    Wait(shared.v_full + 8 * values.at, values.phase);
    ProductWithValues(weights, shared.v + values.at * kVBytes, out);
    WaitProducts<1>();
    Hold(s);
    score();
    Weigh(p, rows, s, scale);
    WaitProducts<0>();
    Hold(out);
    Hold(weights);
    if (thread == 0) Arrive(shared.v_empty + 8 * values.at);
    values.Next(STAGES);
#pragma unroll
    for (int i = 0; i < NE / 2; ++i) out[i] *= scale[i / 2 % 2];
    PackWeights(s, weights);
  }
  Wait(shared.v_full + 8 * values.at, values.phase);
  ProductWithValues(weights, shared.v + values.at * kVBytes, out);
  WaitProducts<0>();
  Hold(out);
  Store(p, rows, b, h, column, out);
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    flash_forward(const __grid_constant__ Params p) {
  extern __shared__ uint8 memory[];
  __shared__ alignas(8) uint64 barriers[1 + 4 * STAGES];
  uint32 base = Aligned(memory);
  uint32 first_barrier = SharedAddress(barriers);
  Shared shared = {base,
                   base + kQBytes,
                   base + kQBytes + STAGES * kKBytes,
                   base + kQBytes + STAGES * (kKBytes + kVBytes),
                   first_barrier,
                   first_barrier + 8,
                   first_barrier + 8 * (1 + STAGES),
                   first_barrier + 8 * (1 + 2 * STAGES),
                   first_barrier + 8 * (1 + 3 * STAGES)};
  if (threadIdx.x == 0) {
    InitBarrier(shared.q_full, 1);
    for (int i = 0; i < STAGES; ++i) {
      InitBarrier(shared.k_full + 8 * i, 1);
      InitBarrier(shared.k_empty + 8 * i, GROUPS);
      InitBarrier(shared.v_full + 8 * i, 1);
      InitBarrier(shared.v_empty + 8 * i, GROUPS);
    }
    FenceBarriers();
  }
  __syncthreads();

  // The blocks that see most begin first.
  int m = gridDim.x - 1 - blockIdx.x, h = blockIdx.y, b = blockIdx.z;
  Sight sight(p, b);
  int rows = min(BM, p.s - m * BM);
  int from = sight.From(p, m * BM);
  int to = sight.To(p, m * BM, rows);
  int n_from = from / BN, n_to = to <= from ? n_from : (to + BN - 1) / BN;
#if TILES
  if (p.tile_strides[3] != 0) {
    ShownTiles shown = FindShown(TilesOf(p, b, h) + m * p.tile_strides[2],
                                 TILES_N, p.tile_strides[3]);
    n_from = max(n_from, shown.from);
    n_to = max(n_from, min(n_to, shown.to));
  }
#endif
  int group = threadIdx.x / 128;
  if (group == 0) {
    BeProducer();
    if (threadIdx.x == 0) Produce(p, shared, b, h, m, n_from, n_to);
  } else {
    BeConsumer();
    Consume(p, shared, sight, b, h, m, n_from, n_to, group - 1);
  }
}
