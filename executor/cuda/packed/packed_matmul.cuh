// Matmuls of the rows of experts (ir/ops/packed_rows.cc), and with WGRAD the
// gradients of their weights. Each block computes tiles of BM x BN in turn: a
// producer warp group copies parts of BK along what is summed, two consumer
// warp groups have every second tile each, so that one multiplies while the
// other stores. Which rows an expert has is read from `ends` when a block
// begins.

using Params = PackedParams;

constexpr int kGroup = 128;  // threads of a warp group
constexpr int kConsumers = 2 * kGroup, kThreads = kConsumers + kGroup;
constexpr int BM = 128, BK = 64;
constexpr uint32 kPanel = 64 * kRowBytes;
// Rows of x are rows of the tile, or are summed over.
constexpr uint32 kABytes = BM * BK * 2, kBBytes = BN * BK * 2;
constexpr uint32 kStageBytes = kABytes + kBBytes;
// Tiles of one column of tiles that follow each other and share weights.
constexpr int kColumnTiles = 16;

// Named barriers: a consumer group's turn to multiply, and its own threads'.
constexpr int kTurn = 1, kOwn = 3;

struct Shared {
  uint32 stages, pieces, full, empty;
  int* begins;  // rows of segments, [segments + 1]
  int* tiles;   // tiles before those of each segment, [segments + 1]
  int segments;
};

// A tile of the result: rows [row, end) of x and columns from n on, or
// rows from m on of the gradient of an expert's weights.
struct Tile {
  int segment, expert, row, end, m, n;
};

__device__ __forceinline__ int EndOf(const Params& p, int segment) {
  int expert = segment % p.experts, first = segment / p.experts * p.group_rows;
#if ENDS_64
  int64 end = static_cast<const int64*>(p.ends)[segment];
#else
  int64 end = static_cast<const int*>(p.ends)[segment];
#endif
  if (expert == p.experts - 1 || end > p.group_rows) end = p.group_rows;
  return first + (end < 0 ? 0 : static_cast<int>(end));
}

__device__ __forceinline__ int InclusiveMax(int x) {
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    int other = __shfl_up_sync(~0u, x, d);
    if (threadIdx.x % 32 >= d) x = max(x, other);
  }
  return x;
}
__device__ __forceinline__ int InclusiveSum(int x) {
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    int other = __shfl_up_sync(~0u, x, d);
    if (threadIdx.x % 32 >= d) x += other;
  }
  return x;
}

__device__ __forceinline__ int ColumnTiles(const Params& p) {
  return (p.n + BN - 1) / BN;
}

// Fills the table of segments; one warp. Ends of all groups are in order.
__device__ __forceinline__ void FindSegments(const Params& p,
                                             const Shared& shared) {
  int lane = threadIdx.x, last = 0, tiles = 0;
  if (lane == 0) shared.begins[0] = shared.tiles[0] = 0;
  for (int from = 0; from < shared.segments; from += 32) {
    int s = from + lane;
    int end = max(InclusiveMax(s < shared.segments ? EndOf(p, s) : 0), last);
    int before = __shfl_up_sync(~0u, end, 1);
    int begin = lane == 0 ? last : before;
    int own = (end - begin + BM - 1) / BM * ColumnTiles(p);
    int sum = tiles + InclusiveSum(s < shared.segments ? own : 0);
    if (s < shared.segments) {
      shared.begins[s + 1] = end;
      shared.tiles[s + 1] = sum;
    }
    last = __shfl_sync(~0u, end, 31);
    tiles = __shfl_sync(~0u, sum, 31);
  }
}

#if WGRAD
__device__ __forceinline__ int TileCount(const Params& p, const Shared&) {
  return p.groups / p.groups_of_lead * p.experts * ((p.m + BM - 1) / BM) *
         ColumnTiles(p);
}

// `expert` counts those of all leads, `segment` is that of its first group.
__device__ __forceinline__ Tile TileAt(const Params& p, const Shared&, int t) {
  int rows = (p.m + BM - 1) / BM, columns = ColumnTiles(p);
  Tile tile;
  tile.m = t % rows * BM;
  tile.n = t / rows % columns * BN;
  tile.expert = t / rows / columns;
  tile.segment = tile.expert / p.experts * p.groups_of_lead * p.experts +
                 tile.expert % p.experts;
  return tile;
}
#else
__device__ __forceinline__ int TileCount(const Params&, const Shared& shared) {
  return shared.tiles[shared.segments];
}

__device__ __forceinline__ Tile TileAt(const Params& p, const Shared& shared,
                                       int t) {
  int low = 0, high = shared.segments;  // tiles[low] <= t < tiles[high]
  while (high - low > 1) {
    int middle = (low + high) / 2;
    (shared.tiles[middle] <= t ? low : high) = middle;
  }
  int begin = shared.begins[low], end = shared.begins[low + 1];
  int rows = (end - begin + BM - 1) / BM, columns = ColumnTiles(p);
  int own = t - shared.tiles[low], chunk = own / (kColumnTiles * columns);
  int in_chunk = own - chunk * kColumnTiles * columns;
  int height = min(kColumnTiles, rows - chunk * kColumnTiles);
  Tile tile;
  tile.segment = low;
  tile.expert = low % p.experts;
  tile.row = begin + (chunk * kColumnTiles + in_chunk % height) * BM;
  tile.end = end;
  tile.n = in_chunk / height * BN;
  return tile;
}
#endif

// Rows that the tile has; fewer than BM where the expert's end.
__device__ __forceinline__ int RowsOf(const Tile& tile) {
  return WGRAD ? BM : tile.end - tile.row;
}

// Calls visit(first, last) for the parts of a tile in turn: columns of rows and
// weights, or rows from `first` on, of which those from `last` on are others'.
template <typename Visit>
__device__ __forceinline__ void ForEachPart(const Params& p,
                                            const Shared& shared,
                                            const Tile& tile, Visit visit) {
#if WGRAD
  for (int g = 0; g < p.groups_of_lead; ++g) {
    int segment = tile.segment + g * p.experts;
    int end = shared.begins[segment + 1];
    for (int row = shared.begins[segment]; row < end; row += BK) {
      visit(row, end);
    }
  }
#else
  for (int k = 0; k < p.k; k += BK) visit(k, p.k);
#endif
}

// Returns how often ForEachPart calls.
__device__ __forceinline__ int PartsOf(const Params& p, const Shared& shared,
                                       const Tile& tile) {
#if WGRAD
  int parts = 0;
  for (int g = 0; g < p.groups_of_lead; ++g) {
    const int* begins = shared.begins + tile.segment + g * p.experts;
    parts += (begins[1] - begins[0] + BK - 1) / BK;
  }
  return parts;
#else
  return (p.k + BK - 1) / BK;
#endif
}

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
