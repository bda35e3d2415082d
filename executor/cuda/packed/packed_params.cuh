// The arguments of the kernels of packed rows, for device code and for the
// host, which includes it by packed_arguments.h.

struct PackedParams {
  TensorMap a, b;
  TensorMap sums;  // boxes of the result of packed_wgrad
  void* y;
  const void* residual;
  const void* ends;  // [groups, experts]
  int rows, group_rows, groups, groups_of_lead, experts;
  int k, m, n;  // columns of a, rows and columns of a result of packed_wgrad
};
