// What the tiles of a mask say, a block for each: 0 all keys are hidden, 1
// neither, 2 none is hidden and nothing is added to scores.

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
      int64 at = b * p.mask_strides[0] + h * p.mask_strides[1] +
                 (m * BM + i) * p.mask_strides[2] + key * p.mask_strides[3];
#if MASK == 1
      bool sees = static_cast<const uint8*>(p.mask)[at] != 0;
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
    const_cast<uint8*>(static_cast<const uint8*>(p.tiles))[tile] = !shows  ? 0
                                                                   : hides ? 1
                                                                           : 2;
  }
}
