// Device code that the attention kernels share: who sees whom. Text for NVRTC:
// flash_text.cc writes constants, flash_params.cuh and hopper.cuh before it.

using Params = FlashParams;

// The keys that the rows of one batch entry see, without masks.
struct Sight {
  int first_row, length;
  __device__ __forceinline__ Sight(const Params& p, int b)
      : first_row(p.first_row), length(p.keys) {
#if LENGTHS
    int64 given = LENGTHS == 8 ? static_cast<const int64*>(p.lengths)[b]
                               : int64{static_cast<const int*>(p.lengths)[b]};
    if (p.at_end) first_row += static_cast<int>(given);
    length = static_cast<int>(given < 0 ? 0 : given < p.keys ? given : p.keys);
#endif
  }
  // Keys of [from, to) outside are seen by none of the rows [row, row + rows).
  __device__ __forceinline__ int From(const Params& p, int row) const {
    if (p.window == 0) return 0;
    int from = first_row + row - p.window + 1;
    return from < 0 ? 0 : from;
  }
  __device__ __forceinline__ int To(const Params& p, int row, int rows) const {
    int to = length;
    if (p.window_after > 0) {
      to = min(to, first_row + row + rows - 1 + p.window_after);
    }
    return to;
  }
  __device__ __forceinline__ bool Sees(const Params& p, int row,
                                       int key) const {
    int at = first_row + row;
    return key < length && (p.window_after == 0 || key < at + p.window_after) &&
           (p.window == 0 || key > at - p.window);
  }
  // All rows of [row, row + rows) see all keys of [key, key + keys).
  __device__ __forceinline__ bool SeesAll(const Params& p, int row, int rows,
                                          int key, int keys) const {
    int at = first_row + row;
    return key + keys <= length &&
           (p.window_after == 0 || key + keys - 1 < at + p.window_after) &&
           (p.window == 0 || key > at + rows - 1 - p.window);
  }
};

constexpr uint32 kMaskPanel = BM * kRowBytes;
constexpr uint32 kMaskBytes = MASK_COPIES ? BN / 64 * kMaskPanel : 0;

#if MASK_COPIES
// Copies the mask's tile of some rows and keys.
__device__ __forceinline__ void CopyMask(const Params& p, uint32 to,
                                         uint32 barrier, int b, int h, int row,
                                         int key) {
  CopyPanels<BN / 64>(&p.mask_tiles, to, kMaskPanel, barrier,
                      p.mask_strides[1] == 0 ? 0 : h, row,
                      p.mask_strides[0] == 0 ? 0 : b, key);
}

// Reads four squares of 8 x 8 elements of a tile of the mask: those of rows
// from `row` and keys from `key` on, then 8 rows further, 8 keys further, and
// both. Each thread gets two neighbouring elements of each square, at row
// lane / 4 and key lane % 4 * 2, or, kAcross, the other way round.
template <bool kAcross>
__device__ __forceinline__ void ReadMask(uint32 tile, int row, int key,
                                         float (&added)[4][2]) {
  int lane = threadIdx.x % 32, square = lane / 8;
  int at = row + lane % 8 + (kAcross ? square / 2 : square % 2) * 8;
  int chunk = key / 8 + (kAcross ? square % 2 : square / 2);
  uint32 from = tile + chunk / 8 * kMaskPanel + at * kRowBytes +
                ((chunk % 8 ^ (at & 7)) << 4);
  uint32 pairs[4];
  if (kAcross) {
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, "
        "[%4];"
        : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
        : "r"(from)
        : "memory");
  } else {
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
        : "r"(from)
        : "memory");
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint16 low = pairs[i] & 0xffff, high = pairs[i] >> 16;
    added[i][0] = MASK_TYPE == kBF16 ? FromBF16(low) : FromF16(low);
    added[i][1] = MASK_TYPE == kBF16 ? FromBF16(high) : FromF16(high);
  }
}
#endif

#if MASK
// Returns the beginning of a row of the mask; keys lie MASK_KEYS (0 or 1)
// apart.
__device__ __forceinline__ int64 MaskRow(const Params& p, int b, int h,
                                         int row) {
  return b * p.mask_strides[0] + h * p.mask_strides[1] +
         row * p.mask_strides[2];
}
#if MASK == 1
__device__ __forceinline__ bool Shows(const Params& p, int64 at) {
  return static_cast<const uint8*>(p.mask)[at] != 0;
}
#else
// Two neighbouring elements of the mask, the first of an even key.
__device__ __forceinline__ float2 AddedToPair(const Params& p, int64 at) {
#if MASK_PAIRS
  if (MASK_TYPE == kF32) {
    return *reinterpret_cast<const float2*>(static_cast<const float*>(p.mask) +
                                            at);
  }
  uint32 both =
      *reinterpret_cast<const uint32*>(static_cast<const uint16*>(p.mask) + at);
  uint16 low = both & 0xffff, high = both >> 16;
  return MASK_TYPE == kBF16 ? float2{FromBF16(low), FromBF16(high)}
                            : float2{FromF16(low), FromF16(high)};
#else
  return {LoadFloat(p.mask, MASK_TYPE, at),
          LoadFloat(p.mask, MASK_TYPE, at + MASK_KEYS)};
#endif
}
#endif
#endif

#if STARTS
// The first key that a row sees.
__device__ __forceinline__ int64 StartOf(const Params& p, int b, int row) {
  int64 at = int64{b} * p.s + min(row, p.s - 1);
  return STARTS == 8 ? static_cast<const int64*>(p.starts)[at]
                     : int64{static_cast<const int*>(p.starts)[at]};
}
#endif

#if TILES
__device__ __forceinline__ const unsigned char* TilesOf(const Params& p, int b,
                                                        int h) {
  return p.tiles + b * p.tile_strides[0] + h * p.tile_strides[1];
}
#endif

// Tiles of BM rows by BN keys: 0 the mask or starts hide all keys, 1 perhaps
// some, 2 none.
__device__ __forceinline__ int TileKind(const Params& p, int b, int h, int m,
                                        int n) {
#if TILES
  int kind = TilesOf(p, b, h)[m * p.tile_strides[2] + n * p.tile_strides[3]];
  return MASK && STARTS ? min(kind, 1) : kind;
#else
  return MASK ? 1 : 2;
#endif
}

constexpr int kThreads = 128 * (GROUPS + 1);

#if TILES
// The first and the last tile behind it, of a line of tiles, that are not
// hidden. All threads of the block call it, with the line's first tile, its
// length and the distance of its tiles.
struct ShownTiles {
  int from, to;
};
__device__ __forceinline__ ShownTiles FindShown(const unsigned char* tiles,
                                                int count, int64 stride) {
  __shared__ int from, to;
  if (threadIdx.x == 0) {
    from = count;
    to = 0;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += kThreads) {
    if (tiles[i * stride] == 0) continue;
    atomicMin(&from, i);
    atomicMax(&to, i + 1);
  }
  __syncthreads();
  return {from, to};
}
#endif
constexpr int kPanelsD = (D + 63) / 64, kPanelsE = (E + 63) / 64;
constexpr int kStepsD = (D + 15) / 16, kStepsE = (E + 15) / 16;
