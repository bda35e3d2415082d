// The tiles of matmuls of experts' rows: which rows an expert has, which tiles
// there are, and the parts that a tile is summed from. Text for NVRTC.

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
