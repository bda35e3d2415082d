// Matmuls of the rows of experts (ir/ops/packed_rows.cc), and with WGRAD the
// gradients of their weights. Each block computes tiles of BM x BN in turn: a
// producer warp group copies parts of BK along what is summed, two consumer
// warp groups have every second tile each, so that one multiplies while the
// other stores. Which rows an expert has is read from `ends` when a block
// begins.

__device__ __forceinline__ void Produce(const Params& p, const Shared& shared) {
  Stage stage;
  int count = TileCount(p, shared);
  for (int t = blockIdx.x; t < count; t += gridDim.x) {
    Tile tile = TileAt(p, shared, t);
    ForEachPart(p, shared, tile, [&](int first, int) {
      uint32 full = shared.full + 8 * stage.at;
      uint32 a = shared.stages + stage.at * kStageBytes, b = a + kABytes;
      Wait(shared.empty + 8 * stage.at, stage.phase ^ 1);
      Expect(full, kStageBytes);
#if WGRAD
      for (int c = 0; c < BM / 64; ++c) {
        CopyBox(&p.a, a + c * kPanel, full, tile.m + 64 * c, 0, first, 0);
      }
      for (int c = 0; c < BN / 64; ++c) {
        CopyBox(&p.b, b + c * kPanel, full, tile.n + 64 * c, 0, first, 0);
      }
#else
      CopyBox(&p.a, a, full, first, 0, tile.row, 0);
#if TRANSPOSED
      CopyBox(&p.b, b, full, first, 0, tile.n, tile.expert);
#else
      for (int c = 0; c < BN / 64; ++c) {
        CopyBox(&p.b, b + c * kPanel, full, tile.n + 64 * c, 0, first,
                tile.expert);
      }
#endif
#endif
      stage.Next(STAGES);
    });
  }
}

#if WGRAD
// Makes rows from `rows` on of a part 0, which are those of other experts.
__device__ __forceinline__ void Clear(uint32 a, int rows, int group) {
  int per_row = (BM + BN) / 64 * 8;  // of 16 bytes
  for (int i = threadIdx.x % kGroup; i < (BK - rows) * per_row; i += kGroup) {
    int row = rows + i / per_row, chunk = i % per_row;
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(
                     a + chunk / 8 * kPanel + row * kRowBytes + chunk % 8 * 16),
                 "r"(0)
                 : "memory");
  }
  FenceShared();
  Meet(kOwn + group, kGroup);
}
#endif

// Adds the product of a part to the first halves of a tile, of 64 rows each.
template <int kHalves>
__device__ __forceinline__ void Multiply(uint32 a, uint32 b,
                                         float (&sum)[2][BN / 2]) {
  BeginProducts();
#pragma unroll
  for (int i = 0; i < BK / 16; ++i) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
#if WGRAD
      Product(sum[half],
              AlongColumns(a + half * kPanel + i * 16 * kRowBytes, kPanel),
              AlongColumns(b + i * 16 * kRowBytes, kPanel), 1);
#else
      Product(sum[half], AlongRows(a + half * kPanel + i * 32),
#if TRANSPOSED
              AlongRows(b + i * 32),
#else
              AlongColumns(b + i * 16 * kRowBytes, kPanel),
#endif
              1);
#endif
    }
  }
  EndProducts();
}

// A thread has rows warp * 16 + lane / 4 of each half of a tile and the one 8
// behind, and of every 8 columns 2 * (lane % 4) and the next.
struct Own {
  int row, column;
};
__device__ __forceinline__ Own OwnOf() {
  int thread = threadIdx.x % kGroup;
  return {thread / 32 * 16 + thread % 32 / 4, thread % 4 * 2};
}

// Lanes of a row have two columns of every 8. Four lanes swap what they have of
// 32 columns, so that each has the 8 from 8 * (lane % 4) on; and back.
__device__ __forceinline__ void Swap(uint32 (&of)[4]) {
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
    bool upper = threadIdx.x & bit;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & bit) continue;
      uint32& other = of[i + bit];
      uint32 given = __shfl_xor_sync(~0u, upper ? of[i] : other, bit);
      (upper ? of[i] : other) = given;
    }
  }
}

// Sets what the products of a tile are added to.
template <int kHalves>
__device__ __forceinline__ void Begin(const Params& p, const Tile& tile,
                                      float (&sum)[2][BN / 2]) {
#if RESIDUAL
  Own own = OwnOf();
#pragma unroll
  for (int i = 0; i < 2 * kHalves; ++i) {
    int half = i / 2, r = i % 2, at = half * 64 + own.row + 8 * r;
    // Loads are not branched around: products wait for such registers. What
    // the tile lacks is not stored.
    const uint16* row = static_cast<const uint16*>(p.residual) +
                        int64{min(tile.row + at, tile.end - 1)} * p.n;
#pragma unroll
    for (int j = 0; j < BN / 8; j += 4) {
      int column = min(tile.n + 8 * j + 4 * own.column, p.n - 8);
      uint4 four = *reinterpret_cast<const uint4*>(row + column);
      uint32 of[4] = {four.x, four.y, four.z, four.w};
      Swap(of);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float* to = &sum[half][4 * (j + k) + 2 * r];
        to[0] = FromT(of[k] & 0xffff);
        to[1] = FromT(of[k] >> 16);
      }
    }
  }
#pragma unroll
  for (int half = 0; half < kHalves; ++half) Hold(sum[half]);
#else
#pragma unroll
  for (int i = 0; i < kHalves * BN / 2; ++i) {
    sum[i / (BN / 2)][i % (BN / 2)] = 0;
  }
#endif
}

// Sums the parts of a tile when the group's turn has come, and passes it on
// where a tile follows.
template <int kHalves>
__device__ __forceinline__ void Sum(const Params& p, const Shared& shared,
                                    const Tile& tile, int group, bool waits,
                                    bool follows, Stage& stage,
                                    float (&sum)[2][BN / 2]) {
  Begin<kHalves>(p, tile, sum);
  if (waits) Meet(kTurn + group, kConsumers);
  bool leads = threadIdx.x % kGroup == 0;
  int before = -1;  // the stage that is still read
  ForEachPart(p, shared, tile, [&](int first, int last) {
    uint32 a = shared.stages + stage.at * kStageBytes;
    Wait(shared.full + 8 * stage.at, stage.phase);
#if WGRAD
    if (first + BK > last) Clear(a, last - first, group);
#endif
    Multiply<kHalves>(a, a + kABytes, sum);
    WaitProducts<1>();
    if (leads && before >= 0) Arrive(shared.empty + 8 * before);
    before = stage.at;
    stage.Next(STAGES);
  });
  if (follows) Announce(kTurn + 1 - group, kConsumers);
  WaitProducts<0>();
#pragma unroll
  for (int half = 0; half < kHalves; ++half) Hold(sum[half]);
  if (leads && before >= 0) Arrive(shared.empty + 8 * before);
}

#if WGRAD
// A piece of a tile's results: kPieceColumns of all rows, in shared memory as
// the copy engine takes it. A group has two, one of which is filled while the
// other is copied.
constexpr int kPieceColumns = kRowBytes / 4;
constexpr uint32 kPieceBytes = BM * kRowBytes;

__device__ __forceinline__ void Store(const Params& p, const Shared& shared,
                                      const Tile& tile, int group,
                                      const float (&sum)[2][BN / 2]) {
  Own own = OwnOf();
  bool leads = threadIdx.x % kGroup == 0;
#pragma unroll
  for (int i = 0; i < BN / kPieceColumns; ++i) {
    int column = tile.n + i * kPieceColumns;
    if (column >= p.n) break;
    uint32 piece = shared.pieces + (2 * group + i % 2) * kPieceBytes;
    if (leads) WaitStores<1>();
    Meet(kOwn + group, kGroup);
#pragma unroll
    for (int at = 0; at < 16; ++at) {
      int half = at / 8, r = at / 4 % 2, j = at % 4;
      int row = half * 64 + own.row + 8 * r;
      int chunk = 2 * j + own.column / 4;
      int from = 4 * (i * kPieceColumns / 8 + j) + 2 * r;
      asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(
                       piece + row * kRowBytes + ((chunk ^ (row & 7)) << 4) +
                       own.column % 4 * 4),
                   "f"(sum[half][from]), "f"(sum[half][from + 1])
                   : "memory");
    }
    FenceShared();
    Meet(kOwn + group, kGroup);
    if (leads) StoreBox(&p.sums, piece, column, 0, tile.m, tile.expert);
  }
}
#else
// Stores a row's results of a thread, sum[i] and sum[i + 1] for i = from,
// from + 4, ...; null: the tile lacks the row.
__device__ __forceinline__ void StoreRow(uint16* row, int columns, int from,
                                         const float (&sum)[BN / 2]) {
  int lane = threadIdx.x % 4;
#pragma unroll
  for (int j = 0; j < BN / 8; j += 4) {
    uint32 of[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int at = 4 * (j + i) + from;
      of[i] = Pack(sum[at], sum[at + 1]);
    }
    Swap(of);
    int column = 8 * (j + lane);
    if (row != nullptr && column < columns) {
      *reinterpret_cast<uint4*>(row + column) = {of[0], of[1], of[2], of[3]};
    }
  }
}

__device__ __forceinline__ void Store(const Params& p, const Shared&,
                                      const Tile& tile, int,
                                      const float (&sum)[2][BN / 2]) {
  Own own = OwnOf();
  int rows = RowsOf(tile);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int half = i / 2, r = i % 2, at = half * 64 + own.row + 8 * r;
    if (half * 64 >= rows) break;
    uint16* row =
        static_cast<uint16*>(p.y) + int64{tile.row + at} * p.n + tile.n;
    StoreRow(at < rows ? row : nullptr, p.n - tile.n, 2 * r, sum[half]);
  }
}
#endif

__device__ __forceinline__ void Consume(const Params& p, const Shared& shared,
                                        int group) {
  Stage stage;
  int count = TileCount(p, shared), number = 0;
  for (int t = blockIdx.x; t < count; t += gridDim.x, ++number) {
    Tile tile = TileAt(p, shared, t);
    if (number % 2 != group) {
      stage.Skip(PartsOf(p, shared, tile), STAGES);
      continue;
    }
    float sum[2][BN / 2];
    bool waits = number > 0, follows = t + gridDim.x < count;
    if (RowsOf(tile) > 64) {
      Sum<2>(p, shared, tile, group, waits, follows, stage, sum);
    } else {
      Sum<1>(p, shared, tile, group, waits, follows, stage, sum);
    }
    Store(p, shared, tile, group, sum);
  }
#if WGRAD
  if (threadIdx.x % kGroup == 0) WaitStores<0>();
#endif
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    packed_matmul(const __grid_constant__ Params p) {
  extern __shared__ uint8 memory[];
  __shared__ alignas(8) uint64 barriers[2 * STAGES];
  Shared shared;
  shared.stages = Aligned(memory);
  shared.full = SharedAddress(barriers);
  shared.empty = shared.full + 8 * STAGES;
  shared.segments = p.groups * p.experts;
  shared.pieces = shared.stages + STAGES * kStageBytes;
  shared.begins = reinterpret_cast<int*>(
      memory + (shared.pieces + PIECE_BYTES - SharedAddress(memory)));
  shared.tiles = shared.begins + shared.segments + 1;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      InitBarrier(shared.full + 8 * i, 1);
      InitBarrier(shared.empty + 8 * i, 1);
    }
    FenceBarriers();
  }
  if (threadIdx.x < 32) FindSegments(p, shared);
  __syncthreads();
  int group = threadIdx.x / kGroup;
  if (group == kConsumers / kGroup) {
    BeProducer();
    if (threadIdx.x == kConsumers) Produce(p, shared);
  } else {
    BeConsumer();
    Consume(p, shared, group);
  }
}
