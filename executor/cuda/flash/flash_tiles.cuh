// Writes what TileKind reads, a block for each tile.

#if STARTS

// The rows of a tile that begin first and last tell for all.
extern "C" __global__ void __launch_bounds__(128)
    flash_tiles(const __grid_constant__ Params p) {
  __shared__ int first, last;
  if (threadIdx.x == 0) {
    first = p.t;
    last = 0;
  }
  __syncthreads();
  int64 tile = blockIdx.x;
  int n = tile % TILES_N, m = tile / TILES_N % TILES_M;
  int b = tile / (TILES_N * TILES_M);
  for (int row = m * BM + threadIdx.x; row < min(p.s, (m + 1) * BM);
       row += 128) {
    int64 start = StartOf(p, b, row);
    int at = start < 0 ? 0 : start < p.t ? static_cast<int>(start) : p.t;
    atomicMin(&first, at);
    atomicMax(&last, at);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    p.tiles[tile] = first >= (n + 1) * BN ? 0 : last > n * BN ? 1 : 2;
  }
}

#else

// A tile whose elements are added to scores is plain where all of them are 0.
extern "C" __global__ void __launch_bounds__(128)
    flash_tiles(const __grid_constant__ Params p) {
  __shared__ int hides, shows;
  if (threadIdx.x == 0) hides = shows = 0;
  __syncthreads();
  int64 tile = blockIdx.x;
  int n = tile % TILES_N, m = tile / TILES_N % TILES_M;
  int h = tile / (TILES_N * TILES_M) % TILES_H;
  int b = tile / (TILES_N * TILES_M) / TILES_H;
  int rows = p.mask_strides[2] == 0 ? 1 : min(BM, p.s - m * BM);
  bool hide = false, show = false;
  for (int key = n * BN + threadIdx.x; key < min(p.t, (n + 1) * BN);
       key += 128) {
    for (int i = 0; i < rows; ++i) {
      int64 at = MaskRow(p, b, h, m * BM + i) + key * MASK_KEYS;
#if MASK == 1
      bool sees = Shows(p, at);
      hide |= !sees;
      show |= sees;
#else
      float added = LoadFloat(p.mask, MASK_TYPE, at);
      hide |= added != 0;
      show |= added != NEVER;
#endif
    }
  }
  if (hide) hides = 1;
  if (show) shows = 1;
  __syncthreads();
  if (threadIdx.x == 0) {
    p.tiles[tile] = !shows ? 0 : hides ? 1 : 2;
  }
}

#endif
