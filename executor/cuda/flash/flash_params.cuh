// The arguments of the attention kernels, for device code and for the host,
// which includes it by flash_arguments.h.

struct FlashParams {
  TensorMap q, k, v, dy, mask_tiles;
  void *y, *log_sums;
  const void *mask, *lengths, *sinks, *starts;
  unsigned char* tiles;
  const void *dy_data, *log_sums_in;
  void* means;
  void *dq, *dq_out, *dk, *dv;
  long long mask_strides[4];  // over [b, h, s, t]; 0: it broadcasts
  long long tile_strides[4];
  int b, s, h, t, g, keys;
  int first_row, window, window_after, at_end, empty_is_nan;
  float scale, softcap;
};
