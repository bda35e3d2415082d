// Matmuls of the rows of experts (ir/ops/packed_rows.cc), and with WGRAD the
// gradients of their weights. Each block computes tiles of BM x BN in turn: a
// producer warp group copies parts of BK along what is summed, two consumer
// warp groups of 64 rows each compute. Which rows an expert has is read from
// `ends` when a block begins.

using Params = PackedParams;

constexpr int kThreads = 384, kConsumers = 256;
constexpr int BM = 128, BK = 64;
constexpr uint32 kPanel = 64 * kRowBytes;
// Rows of x are rows of the tile, or are summed over.
constexpr uint32 kABytes = BM * BK * 2, kBBytes = BN * BK * 2;
constexpr uint32 kStageBytes = kABytes + kBBytes;
// Tiles of one column of tiles that follow each other and share weights.
constexpr int kColumnTiles = 16;

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
__device__ __forceinline__ void Clear(uint32 a, int rows) {
  int per_row = (BM + BN) / 64 * 8;  // of 16 bytes
  for (int i = threadIdx.x; i < (BK - rows) * per_row; i += kConsumers) {
    int row = rows + i / per_row, chunk = i % per_row;
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(
                     a + chunk / 8 * kPanel + row * kRowBytes + chunk % 8 * 16),
                 "r"(0)
                 : "memory");
  }
  FenceShared();
  Meet(1, kConsumers);
}
#endif

// Adds the product of a part.
__device__ __forceinline__ void Multiply(uint32 a, uint32 b, int group,
                                         bool add, float (&sum)[BN / 2]) {
  BeginProducts();
#pragma unroll
  for (int i = 0; i < BK / 16; ++i) {
#if WGRAD
    Product(sum, AlongColumns(a + group * kPanel + i * 16 * kRowBytes, kPanel),
            AlongColumns(b + i * 16 * kRowBytes, kPanel), add || i > 0);
#else
    Product(sum, AlongRows(a + group * kPanel + i * 32),
#if TRANSPOSED
            AlongRows(b + i * 32),
#else
            AlongColumns(b + i * 16 * kRowBytes, kPanel),
#endif
            add || i > 0);
#endif
  }
  EndProducts();
}

// A part of a group's results in shared memory, kPieceBytes of each row, with a
// row's stride at which the threads of a warp write to different banks.
constexpr int kElementBytes = WGRAD ? 4 : 2;
constexpr int kPieceBytes = BN * kElementBytes < 256 ? BN * kElementBytes : 256;
constexpr int kPieceColumns = kPieceBytes / kElementBytes;
constexpr uint32 kPieceStride = kPieceBytes + (WGRAD ? 32 : 16);
constexpr uint32 kPiece = 64 * kPieceStride;

// Puts two neighbouring results of a row into shared memory.
__device__ __forceinline__ void Put(uint32 to, float low, float high) {
#if WGRAD
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(low), "f"(high)
               : "memory");
#else
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(Pack(low, high))
               : "memory");
#endif
}

// Returns the address of a row of the tile in the result; null: the tile lacks
// it.
__device__ __forceinline__ uint8* RowOf(const Params& p, const Tile& tile,
                                        int own) {
#if WGRAD
  int row = tile.m + own;
  if (row >= p.m) return nullptr;
  int64 at = int64{tile.expert} * p.m + row;
#else
  int row = tile.row + own;
  if (row >= tile.end) return nullptr;
  int64 at = row;
#endif
  return static_cast<uint8*>(p.y) + at * p.n * kElementBytes;
}

// Stores a group's results by pieces through two buffers, from which the copy
// engine takes rows while the next piece, or tile, is computed. Thread t of a
// group has rows t / 32 * 16 + t % 32 / 4 and the one 8 behind.
__device__ __forceinline__ void Store(const Params& p, const Tile& tile,
                                      uint32 pieces, int group,
                                      const float (&sum)[BN / 2]) {
  int thread = threadIdx.x % 128, lane = thread % 32;
  uint32 own = (thread / 32 * 16 + lane / 4) * kPieceStride +
               lane % 4 * 2 * kElementBytes;
  uint8* row = thread < 64 ? RowOf(p, tile, group * 64 + thread) : nullptr;
#pragma unroll
  for (int i = 0; i < BN / kPieceColumns; ++i) {
    int column = tile.n + i * kPieceColumns;
    uint32 piece = pieces + i % 2 * kPiece;
    if (thread < 64) {
      asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    }
    Meet(2 + group, 128);  // the piece before the last has been read
#pragma unroll
    for (int j = 0; j < kPieceColumns / 8; ++j) {
      int at = 4 * (i * kPieceColumns / 8 + j);
      uint32 to = piece + own + 8 * j * kElementBytes;
      Put(to, sum[at], sum[at + 1]);
      Put(to + 8 * kPieceStride, sum[at + 2], sum[at + 3]);
    }
    FenceShared();
    Meet(2 + group, 128);
    int bytes = min(kPieceBytes, (p.n - column) * kElementBytes);
    if (row != nullptr && bytes > 0) {
      asm volatile(
          "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
              row + int64{column} * kElementBytes),
          "r"(piece + thread * kPieceStride), "r"(bytes)
          : "memory");
    }
    if (thread < 64) {
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
  }
}

// True where a group has rows of the tile.
__device__ __forceinline__ bool HasRows(const Tile& tile, int group) {
  return WGRAD || tile.row + group * 64 < tile.end;
}

__device__ __forceinline__ void Consume(const Params& p, const Shared& shared,
                                        int group) {
  bool leads = threadIdx.x % 128 == 0;
  Stage stage;
  int count = TileCount(p, shared);
  for (int t = blockIdx.x; t < count; t += gridDim.x) {
    Tile tile = TileAt(p, shared, t);
    float sum[BN / 2];
    bool has_rows = HasRows(tile, group);
    int before = -1;  // the stage that is still read
    ForEachPart(p, shared, tile, [&](int first, int last) {
      uint32 a = shared.stages + stage.at * kStageBytes;
      Wait(shared.full + 8 * stage.at, stage.phase);
#if WGRAD
      if (first + BK > last) Clear(a, last - first);
#endif
      if (has_rows) {
        Multiply(a, a + kABytes, group, before >= 0, sum);
      } else {
        Meet(2 + group, 128);  // so that no warp is a round behind
      }
      if (before >= 0) {
        WaitProducts<1>();
        if (leads) Arrive(shared.empty + 8 * before);
      }
      before = stage.at;
      stage.Next(STAGES);
    });
    WaitProducts<0>();
    Hold(sum);
    if (before >= 0) {
      if (leads) Arrive(shared.empty + 8 * before);
    } else {
#pragma unroll
      for (int i = 0; i < BN / 2; ++i) sum[i] = 0;
    }
    if (has_rows) {
      Store(p, tile, shared.pieces + group * 2 * kPiece, group, sum);
    }
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    packed_matmul(const __grid_constant__ Params p) {
  extern __shared__ uint8 memory[];
  __shared__ alignas(8) uint64 barriers[2 * STAGES];
  Shared shared;
  shared.stages = Aligned(memory);
  shared.pieces = shared.stages + STAGES * kStageBytes;
  shared.full = SharedAddress(barriers);
  shared.empty = shared.full + 8 * STAGES;
  shared.segments = p.groups * p.experts;
  shared.begins = reinterpret_cast<int*>(
      memory + (shared.pieces + 4 * kPiece - SharedAddress(memory)));
  shared.tiles = shared.begins + shared.segments + 1;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      InitBarrier(shared.full + 8 * i, 1);
      InitBarrier(shared.empty + 8 * i, 2);
    }
    FenceBarriers();
  }
  if (threadIdx.x < 32) FindSegments(p, shared);
  __syncthreads();
  int group = threadIdx.x / 128;
  if (group == kConsumers / 128) {
    BeProducer();
    if (threadIdx.x == kConsumers) Produce(p, shared);
  } else {
    BeConsumer();
    Consume(p, shared, group);
  }
}
