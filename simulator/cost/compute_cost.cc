#include "simulator/cost/compute_cost.h"

#include <algorithm>
#include <cmath>

#include "ir/gpu/attention_kernel.h"

namespace asyra {
namespace {

struct Tile {
  double rows, cols;
};
// Tile shapes of matmul kernels; the library picks the best.
constexpr Tile kTiles[] = {{256, 128}, {128, 256}, {128, 128},
                           {128, 64},  {64, 128},  {64, 64}};
// With fewer tiles than SMs libraries split k, but not into pieces smaller than
// this.
constexpr double kShortestSplit = 512;
// One block of an op that moves bytes: 128 threads of eight 16-byte accesses.
constexpr double kBlockBytes = 16384;

// Rows of more bytes do not fit in the registers of a block of 1024 threads
// that keep 32 each (executor/cuda/codegen).
constexpr double kMostHeldBytes = 1024 * 32 * 4;

// The factor on the time of a matmul of odd rows (Work::odd_rows). On an H200,
// cuBLASLt 13.1: the three of a loss over 50257 classes, 32768 x 768, took 57
// ms, over 50304 classes 9.3.
constexpr double kOddRows = 6;

// The factor on the time of attention that our kernels compute without tensor
// cores, beside its operations at the vector rate. On an H200: causal attention
// of 2 x 8192 rows and 32 heads of 128 took 120 ms.
constexpr double kPlainAttention = 4.3;

struct MatmulTime {
  double us = 0;
  double waves = 0;
};

// Waves of tiles over the SMs, with the fastest of the tile shapes. Each tile
// pays for the fixed part of its loop as extra steps of k.
MatmulTime TimeOf(const Gpu& gpu, const Rate& rate, const MatmulShape& shape) {
  if (shape.batch * shape.rows * shape.cols == 0) return {};
  double sm_flops_per_us = rate.achievable * 1e6 / gpu.sms;
  MatmulTime best = {INFINITY, 0};
  for (const Tile& tile : kTiles) {
    double tiles = shape.batch * std::ceil(shape.rows / tile.rows) *
                   std::ceil(shape.cols / tile.cols);
    // With split k, the depth of one piece.
    double sharers = std::max(1.0, std::floor(gpu.sms / tiles));
    double depth =
        std::max(shape.k / sharers, std::min(shape.k, kShortestSplit));
    double blocks = tiles * std::ceil(shape.k / std::max(depth, 1.0) - 1e-9);
    double waves = std::ceil(blocks / gpu.sms);
    double half = tile.rows * tile.cols / (tile.rows + tile.cols);
    double efficiency = half / (half + gpu.gemm_half_tile);
    double us = waves * 2 * tile.rows * tile.cols * (depth + gpu.gemm_extra_k) /
                (sm_flops_per_us * efficiency);
    if (us < best.us) best = {us, blocks / gpu.sms};
  }
  return best;
}

}  // namespace

Work WorkOnGpu(const OpCall& call, const Mesh& mesh) {
  Work work = WorkOf(call, mesh);
  if (!IsAttention(call.def) ||
      AttentionKernelOf(call).kernel != AttentionKernel::kPlain) {
    return work;
  }
  work.matrix = false;
  work.flops *= kPlainAttention;
  return work;
}

MatmulShape MatmulOf(const Work& work, const Type& result) {
  MatmulShape shape = {work.batch, work.rows, work.cols, 0};
  if (shape.rows == 0) {
    auto elements = static_cast<double>(result.num_elements());
    shape.cols =
        result.rank() == 0 ? 1 : static_cast<double>(result.dims.back().size);
    shape.rows = elements / std::max(shape.cols, 1.0);
  }
  double elements = shape.batch * shape.rows * shape.cols;
  if (elements > 0) shape.k = work.flops / (2 * elements);
  return shape;
}

ComputeEstimate EstimateCompute(const Gpu& gpu, const Work& work, DType dtype,
                                const Type& result) {
  ComputeEstimate estimate;
  double bytes = work.read_bytes + work.write_bytes;
  double vector_flops_per_us = gpu.vector_tflops.achievable * 1e6;
  double gbps = gpu.hbm_gbps.achievable;
  auto matrix = gpu.matrix_tflops.find(ToString(dtype));
  if (work.matrix && matrix != gpu.matrix_tflops.end()) {
    MatmulTime matmul = TimeOf(gpu, matrix->second, MatmulOf(work, result));
    if (work.odd_rows) matmul.us *= kOddRows;
    estimate.math_us = matmul.us + work.vector_flops / vector_flops_per_us;
    estimate.waves = matmul.waves;
    estimate.memory_us = bytes / (gbps * gpu.gemm_hbm_fraction * 1e3);
    return estimate;
  }
  estimate.math_us = (work.flops + work.vector_flops) / vector_flops_per_us;
  if (work.row_bytes > kMostHeldBytes) bytes += work.reread_bytes;
  // Few blocks do not fill the memory, which is what slows small tiles. Parts
  // of blocks count, so that more bytes never take less time.
  if (bytes > 0) {
    double blocks = std::max(
        1.0, std::max(work.read_bytes, work.write_bytes) / kBlockBytes);
    estimate.memory_us =
        bytes / (gbps * std::min(1.0, blocks / gpu.hbm_sms) * 1e3);
  }
  return estimate;
}

}  // namespace asyra
