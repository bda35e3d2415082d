// Gradients of attention by q, k and v. A block has BN keys of one head of k
// and v and goes over the rows of all query heads that read it, BM at a time:
// a producer warp group copies rows of q and dy, consumer warp groups have 64
// keys each. Scores are computed with keys as rows, so that the gradients of k
// and v take their weights from registers. That of q is summed over blocks in
// f32, tile by tile, in the order of the threads' registers.

constexpr int kConsumers = 128 * GROUPS;
constexpr uint32 kRowPanel = BM * kRowBytes, kKeyPanel = BN * kRowBytes;
constexpr uint32 kKBytes = kPanelsD * kKeyPanel, kVBytes = kPanelsE * kKeyPanel;
constexpr uint32 kQBytes = kPanelsD * kRowPanel;
constexpr uint32 kDyBytes = kPanelsE * kRowPanel;
// Columns of dq that a group computes: panels, or half of the only one.
constexpr int kDqColumns =
    kPanelsD == 1 ? 64 / GROUPS : (kPanelsD + GROUPS - 1) / GROUPS * 64;
constexpr int kDqCount = kDqColumns / 2;  // of a thread
constexpr uint32 kDqBytes = 4 * kDqCount * kConsumers;
constexpr uint32 kDsBytes = BN * kRowBytes;
constexpr uint32 kStatBytes = 8 * BM;

struct Shared {
  uint32 k, v, q, dy;  // of stage 0
  uint32 mask;         // of stage 0
  uint32 ds;           // [BN][BM], 16 bits, of the first buffer
  uint32 dq;           // f32
  uint32 rows;         // log sums and means of stage 0
  uint32 kv_full, full, empty;
};

// The tiles of a block in turn: of each head the rows that may see its keys.
struct Tiles {
  int from, to;  // of m
  int head, last_head;
  int m, kind;

  __device__ __forceinline__ Tiles(const Params& p, const Sight& sight, int g,
                                   int n) {
    int first = n * BN, last = min(first + BN, sight.length) - 1;
    int rows = (p.s + BM - 1) / BM;
    from = 0;
    to = last < first ? 0 : rows;
    if (p.window_after > 0) {
      from = max(first - p.window_after + 1 - sight.first_row, 0) / BM;
    }
    if (p.window > 0) {
      int end = last + p.window - sight.first_row;  // rows before it
      to = min(to, end <= 0 ? 0 : (end + BM - 1) / BM);
    }
    int heads = p.h / p.g;
    head = g * heads;
    last_head = head + heads - 1;
    m = from - 1;
  }
  // Leaves out the rows before `first` and from `behind` on.
  __device__ __forceinline__ void Narrow(int first, int behind) {
    from = max(from, first);
    to = min(to, behind);
    m = from - 1;
  }
  // The next tile; false: there is none.
  __device__ __forceinline__ bool Next(const Params& p, int b, int n) {
    while (true) {
      ++m;
      if (m >= to) {
        if (head == last_head || to <= from) return false;
        ++head;
        m = from - 1;
        continue;
      }
      kind = TileKind(p, b, head, m, n);
      if (kind != 0) return true;
    }
  }
};

// Copies the log sums and means of a tile's rows.
__device__ __forceinline__ void CopyStats(const Params& p, uint32 to,
                                          uint32 barrier, int b, int h, int m) {
  int64 all_rows = (p.s + BM - 1) / BM * BM;
  CopyBytes(static_cast<const float2*>(p.means) +
                (int64{b} * p.h + h) * all_rows + m * BM,
            to, kStatBytes, barrier);
}

__device__ __forceinline__ void Produce(const Params& p, const Shared& shared,
                                        Tiles tiles, int b, int g, int n) {
  Expect(shared.kv_full, kKBytes + kVBytes);
  CopyPanels<kPanelsD>(&p.k, shared.k, kKeyPanel, shared.kv_full, g, n * BN, b);
  CopyPanels<kPanelsE>(&p.v, shared.v, kKeyPanel, shared.kv_full, g, n * BN, b);
  Stage stage;
  while (tiles.Next(p, b, n)) {
    uint32 full = shared.full + 8 * stage.at;
    Wait(shared.empty + 8 * stage.at, stage.phase ^ 1);
    Expect(full, kQBytes + kDyBytes + kStatBytes +
                     (tiles.kind == 1 ? kMaskBytes : 0));
    CopyStats(p, shared.rows + stage.at * kStatBytes, full, b, tiles.head,
              tiles.m);
#if MASK_COPIES
    if (tiles.kind == 1) {
      CopyMask(p, shared.mask + stage.at * kMaskBytes, full, b, tiles.head,
               tiles.m * BM, n * BN);
    }
#endif
    CopyPanels<kPanelsD>(&p.q, shared.q + stage.at * kQBytes, kRowPanel, full,
                         tiles.head, tiles.m * BM, b);
    CopyPanels<kPanelsE>(&p.dy, shared.dy + stage.at * kDyBytes, kRowPanel,
                         full, tiles.head, tiles.m * BM, b);
    stage.Next(STAGES);
  }
}

// left right^T: 64 rows of `left` by BM rows of `right`.
template <int kSteps>
__device__ __forceinline__ void ProductOfRows(uint32 left, uint32 right,
                                              float (&sum)[BM / 2]) {
  BeginProducts();
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    ProductScores(sum, AlongRows(left + i / 4 * kKeyPanel + i % 4 * 32),
                  AlongRows(right + i / 4 * kRowPanel + i % 4 * 32), i > 0);
  }
  EndProducts();
}

// Turns products s, or with a cap scores, to weights; row i / 2 of the thread
// is a key, columns are rows of q. `mask`: its tile, where copies bring it. Not
// kHides: all rows see all keys.
template <bool kHides>
__device__ __forceinline__ void Weigh(const Params& p, const Sight& sight,
                                      uint32 rows, uint32 mask, int b, int h,
                                      int m, int first_key, int column,
                                      bool plain, bool whole,
                                      float (&s)[BM / 2]) {
#if MASK_COPIES
  float added[4][2] = {};
#endif
#pragma unroll
  for (int j = 0; j < BM / 8; ++j) {
    float4 of = LoadShared(rows + 64 * j);  // log sum and mean of two rows
#if MASK_COPIES
    if (kHides && !plain && j % 2 == 0) {
      ReadMask<true>(mask, 8 * j, (threadIdx.x / 32 - 4) * 16, added);
    }
#endif
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float log_sum = i % 2 == 0 ? of.x : of.z;
      float x = s[4 * j + i];
#if !CAP && MASK >= 2
      x *= p.scale;
#endif
      int key = first_key + i / 2 * 8, row = m * BM + 8 * j + column + i % 2;
#if MASK_COPIES
      if (kHides) x += added[j % 2 * 2 + i / 2][i % 2];
#elif MASK
      if (kHides && !plain && key < p.t) {
        int64 at = MaskRow(p, b, h, min(row, p.s - 1)) + key * MASK_KEYS;
#if MASK == 1
        if (!Shows(p, at)) x = NEVER;
#else
        x += LoadFloat(p.mask, MASK_TYPE, at);
#endif
      }
#endif
#if STARTS
      if (kHides && !plain && key < StartOf(p, b, row)) x = NEVER;
#endif
      if (kHides && !whole && !sight.Sees(p, row, key)) x = NEVER;
#if MASK >= 2
      s[4 * j + i] = Exp2((x - log_sum) * kLog2E);
#elif CAP
      s[4 * j + i] = Exp2(x * kLog2E - log_sum);
#else
      s[4 * j + i] = Exp2(x * (p.scale * kLog2E) - log_sum);
#endif
    }
  }
}

__device__ __forceinline__ void Gradient(uint32 rows,
                                         const float (&weights)[BM / 2],
                                         float (&dp)[BM / 2]) {
#pragma unroll
  for (int j = 0; j < BM / 8; ++j) {
    float4 of = LoadShared(rows + 64 * j);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float mean = i % 2 == 0 ? of.y : of.w;
      dp[4 * j + i] = weights[4 * j + i] * (dp[4 * j + i] - mean);
    }
  }
}

__device__ __forceinline__ void PackAll(const float (&x)[BM / 2],
                                        uint32 (&packed)[BM / 4]) {
#pragma unroll
  for (int i = 0; i < BM / 4; ++i) packed[i] = Pack(x[2 * i], x[2 * i + 1]);
}

// Rows of ds are keys, at 128 bytes, with the swizzle of a panel.
__device__ __forceinline__ void StoreScores(uint32 ds, int row, int column,
                                            const uint32 (&packed)[BM / 4]) {
#pragma unroll
  for (int i = 0; i < BM / 4; ++i) {
    int at = row + i % 2 * 8, chunk = i / 2;
    asm volatile(
        "st.shared.b32 [%0], %1;" ::"r"(ds + at * kRowBytes +
                                        ((chunk ^ (at & 7)) << 4) + 2 * column),
        "r"(packed[i])
        : "memory");
  }
}

__device__ __forceinline__ void AddDq(const Params& p, uint32 dq, int b, int h,
                                      int m) {
  int64 tile = (int64{b} * p.h + h) * ((p.s + BM - 1) / BM) + m;
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], "
      "%2;\n"
      "cp.async.bulk.commit_group;" ::"l"(static_cast<uint8*>(p.dq) +
                                          tile * kDqBytes),
      "r"(dq), "r"(kDqBytes)
      : "memory");
}

template <int kCount>
__device__ __forceinline__ void StoreKeys(const Params& p, void* to, int width,
                                          float factor, int b, int g,
                                          int first_key, int column,
                                          const float (&sum)[kCount]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    int key = first_key + 8 * r;
    if (key >= p.t) continue;
    uint16* at = static_cast<uint16*>(to) +
                 ((int64{b} * p.t + key) * p.g + g) * width + column;
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
      if (8 * j >= width) break;
      *reinterpret_cast<uint32*>(at + 8 * j) =
          Pack(factor * sum[4 * j + 2 * r], factor * sum[4 * j + 2 * r + 1]);
    }
  }
}

__device__ __forceinline__ void Consume(const Params& p, const Shared& shared,
                                        const Sight& sight, Tiles tiles, int b,
                                        int g, int n, int group) {
  int thread = threadIdx.x % 128, lane = thread % 32;
  int consumer = group * 128 + thread;
  int column = lane % 4 * 2, row = group * 64 + thread / 32 * 16 + lane / 4;
  uint32 k = shared.k + group * 64 * kRowBytes;
  uint32 v = shared.v + group * 64 * kRowBytes;
  float dk[ND / 2], dv[NE / 2];
#pragma unroll
  for (int i = 0; i < ND / 2; ++i) dk[i] = 0;
#pragma unroll
  for (int i = 0; i < NE / 2; ++i) dv[i] = 0;
  Stage stage;
  uint32 ds = shared.ds;
  Wait(shared.kv_full, 0);
  while (tiles.Next(p, b, n)) {
    int m = tiles.m, h = tiles.head;
    uint32 q = shared.q + stage.at * kQBytes;
    uint32 dy = shared.dy + stage.at * kDyBytes;
    uint32 rows = shared.rows + stage.at * kStatBytes + 8 * column;
    bool whole = sight.SeesAll(p, m * BM, BM, n * BN, BN);
    float s[BM / 2], dp[BM / 2];
    Wait(shared.full + 8 * stage.at, stage.phase);
    ProductOfRows<kStepsD>(k, q, s);
    ProductOfRows<kStepsE>(v, dy, dp);
    WaitProducts<1>();
    Hold(s);
#if CAP
    uint32 slopes[BM / 4];
#pragma unroll
    for (int i = 0; i < BM / 2; i += 2) {
      float low = Tanh(s[i] * (p.scale / p.softcap));
      float high = Tanh(s[i + 1] * (p.scale / p.softcap));
      slopes[i / 2] = PackF16(1 - low * low, 1 - high * high);
      s[i] = p.softcap * low;
      s[i + 1] = p.softcap * high;
    }
#endif
    uint32 mask = shared.mask + stage.at * kMaskBytes;
    bool plain = tiles.kind == 2;
    if (plain && whole) {
      Weigh<false>(p, sight, rows, mask, b, h, m, n * BN + row, column, true,
                   true, s);
    } else {
      Weigh<true>(p, sight, rows, mask, b, h, m, n * BN + row, column, plain,
                  whole, s);
    }
    uint32 weights[BM / 4], scores[BM / 4];
    PackAll(s, weights);
    BeginProducts();
#pragma unroll
    for (int i = 0; i < BM / 16; ++i) {
      ProductDv(dv, &weights[4 * i],
                AlongColumns(dy + i * 16 * kRowBytes, kRowPanel), 1);
    }
    EndProducts();
    WaitProducts<1>();  // the gradient of v goes on
    Hold(dp);
    Gradient(rows, s, dp);
#if CAP
#pragma unroll
    for (int i = 0; i < BM / 4; ++i) {
      dp[2 * i] *= FromF16(slopes[i] & 0xffff);
      dp[2 * i + 1] *= FromF16(slopes[i] >> 16);
    }
#endif
    PackAll(dp, scores);
    StoreScores(ds, row, column, scores);
    if (consumer == 0) {
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    FenceShared();
    Meet(1, kConsumers);  // all of ds is written, and what was in dq is read
    float dq[kDqCount];
    BeginProducts();
#pragma unroll
    for (int i = 0; i < BN / 16; ++i) {
      uint32 from = shared.k + i * 16 * kRowBytes +
                    group * kDqColumns / 64 * kKeyPanel +
                    group * kDqColumns % 64 * 2;
      ProductDq(dq, AlongColumns(ds + i * 16 * kRowBytes, 0),
                AlongColumns(from, kKeyPanel), i > 0);
    }
    EndProducts();
    BeginProducts();
#pragma unroll
    for (int i = 0; i < BM / 16; ++i) {
      ProductDk(dk, &scores[4 * i],
                AlongColumns(q + i * 16 * kRowBytes, kRowPanel), 1);
    }
    EndProducts();
    WaitProducts<1>();
    Hold(dq);
#if DS_BUFFERS == 1
    Meet(2, kConsumers);  // ds has been read
#else
    // Behind the next meeting nobody reads it.
    ds = 2 * shared.ds + kDsBytes - ds;
#endif
#pragma unroll
    for (int i = 0; i < kDqCount; ++i) {
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(
                       shared.dq + 4 * (i * kConsumers + consumer)),
                   "f"(dq[i])
                   : "memory");
    }
    FenceShared();
    Meet(1, kConsumers);
    if (consumer == 0) AddDq(p, shared.dq, b, h, m);
    WaitProducts<0>();
    Hold(dv);
    Hold(dk);
    Hold(weights);
    Hold(scores);
    if (thread == 0) Arrive(shared.empty + 8 * stage.at);
    stage.Next(STAGES);
  }
  if (consumer == 0) {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
  StoreKeys(p, p.dk, D, p.scale, b, g, n * BN + row, column, dk);
  StoreKeys(p, p.dv, E, 1, b, g, n * BN + row, column, dv);
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    flash_backward(const __grid_constant__ Params p) {
  extern __shared__ uint8 memory[];
  __shared__ alignas(8) uint64 barriers[1 + 2 * STAGES];
  uint32 base = Aligned(memory);
  uint32 first = SharedAddress(barriers);
  Shared shared;
  shared.k = base;
  shared.v = shared.k + kKBytes;
  shared.q = shared.v + kVBytes;
  shared.dy = shared.q + STAGES * kQBytes;
  shared.mask = shared.dy + STAGES * kDyBytes;
  shared.ds = shared.mask + STAGES * kMaskBytes;
  shared.dq = shared.ds + DS_BUFFERS * kDsBytes;
  shared.rows = shared.dq + kDqBytes;
  shared.kv_full = first;
  shared.full = first + 8;
  shared.empty = first + 8 * (1 + STAGES);
  if (threadIdx.x == 0) {
    InitBarrier(shared.kv_full, 1);
    for (int i = 0; i < STAGES; ++i) {
      InitBarrier(shared.full + 8 * i, 1);
      InitBarrier(shared.empty + 8 * i, GROUPS);
    }
    FenceBarriers();
  }
  __syncthreads();

  int n = blockIdx.x, g = blockIdx.y, b = blockIdx.z;
  Sight sight(p, b);
  Tiles tiles(p, sight, g, n);
#if TILES
  if (p.tile_strides[2] != 0) {
    ShownTiles shown = FindShown(TilesOf(p, b, 0) + n * p.tile_strides[3],
                                 TILES_M, p.tile_strides[2]);
    tiles.Narrow(shown.from, shown.to);
  }
#endif
  int group = threadIdx.x / 128;
  if (group == 0) {
    BeProducer();
    if (threadIdx.x == 0) Produce(p, shared, tiles, b, g, n);
  } else {
    BeConsumer();
    Consume(p, shared, sight, tiles, b, g, n, group - 1);
  }
}

// The log sum and dy . y of each row, a warp for each; rows that fill the last
// tile have no weights.
extern "C" __global__ void __launch_bounds__(128)
    flash_rows(const __grid_constant__ Params p) {
  int64 all_rows = (p.s + BM - 1) / BM * BM;
  int64 at = int64{blockIdx.x} * 4 + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (at >= int64{p.b} * p.h * all_rows) return;
  int row = at % all_rows;
  int64 head = at / all_rows;
  float2* to = static_cast<float2*>(p.means) + at;
  if (row >= p.s) {
    if (lane == 0) *to = {ENDLESS, 0};
    return;
  }
  int64 from = ((head / p.h * p.s + row) * p.h + head % p.h) * E;
  const uint32* y =
      reinterpret_cast<const uint32*>(static_cast<const uint16*>(p.y) + from);
  const uint32* dy = reinterpret_cast<const uint32*>(
      static_cast<const uint16*>(p.dy_data) + from);
  float sum = 0;
  for (int i = lane; i < E / 2; i += 32) {
    uint32 a = y[i], d = dy[i];
    sum +=
        FromT(a & 0xffff) * FromT(d & 0xffff) + FromT(a >> 16) * FromT(d >> 16);
  }
#pragma unroll
  for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(~0u, sum, i);
  float log_sum = static_cast<const float*>(p.log_sums_in)[head * p.s + row];
  // Products of plain scores are scaled together with log2(e).
  if (MASK < 2) log_sum *= kLog2E;
  if (lane == 0) *to = {log_sum, sum};
}

// dq [b, s, h, D] from its sums, which are as the threads of a block had them.
extern "C" __global__ void __launch_bounds__(kConsumers)
    flash_dq(const __grid_constant__ Params p) {
  int tiles = (p.s + BM - 1) / BM;
  int m = blockIdx.x % tiles;
  int64 head = blockIdx.x / tiles;
  const float* sums = reinterpret_cast<const float*>(
      static_cast<const uint8*>(p.dq) + int64{blockIdx.x} * kDqBytes);
  int thread = threadIdx.x, group = thread / 128, lane = thread % 32;
#pragma unroll
  for (int i = 0; i < kDqCount; i += 2) {
    int row = m * BM + thread % 128 / 32 * 16 + lane / 4 + i / 2 % 2 * 8;
    int column = group * kDqColumns + i / 4 * 8 + lane % 4 * 2;
    float low = sums[i * kConsumers + thread];
    float high = sums[(i + 1) * kConsumers + thread];
    if (row >= p.s || column >= D) continue;
    *reinterpret_cast<uint32*>(
        static_cast<uint16*>(p.dq_out) +
        ((head / p.h * p.s + row) * p.h + head % p.h) * D + column) =
        Pack(p.scale * low, p.scale * high);
  }
}
