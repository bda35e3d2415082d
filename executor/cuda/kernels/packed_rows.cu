// Computations on packed rows by ordinary arithmetic.
#include "executor/cuda/kernels/number.cuh"
#include "executor/cuda/kernels/packed_rows.h"
#include "executor/cuda/kernels/row_units.cuh"

namespace asyra::cuda {
namespace {

constexpr int kThreads = 128;

// The expert of a row: the first whose end lies behind it, or the last.
__device__ int64_t ExpertOf(const PackedProblem& p, const void* ends,
                            int64_t row) {
  int64_t group = row / (p.rows / p.groups), own = row % (p.rows / p.groups);
  for (int64_t e = 0; e + 1 < p.experts; ++e) {
    if (IntegerAt(p.index, ends, group * p.experts + e) > own) return e;
  }
  return p.experts - 1;
}

// The rows [begin, end) of an expert in a group.
struct Range {
  int64_t begin, end;
};
__device__ Range RowsOf(const PackedProblem& p, const void* ends, int64_t group,
                        int64_t expert) {
  int64_t begin = 0, end = 0, rows = p.rows / p.groups;
  for (int64_t e = 0; e <= expert; ++e) {
    int64_t given = e + 1 == p.experts
                        ? rows
                        : IntegerAt(p.index, ends, group * p.experts + e);
    begin = end;
    end = min(max(given, end), rows);
  }
  return {group * rows + begin, group * rows + end};
}

// A block has a row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    MatmulKernel(PackedProblem p, const T* rows, const T* weights,
                 const void* ends, const T* residual, T* y) {
  int64_t row = blockIdx.x;
  int64_t expert = ExpertOf(p, ends, row);
  const T* x = rows + row * p.k;
  const T* w = weights + expert * p.k * p.n;
  for (int64_t n = threadIdx.x; n < p.n; n += kThreads) {
    Wide<T> sum = p.residual ? Number(residual[row * p.n + n]) : Wide<T>(0);
    for (int64_t k = 0; k < p.k; ++k) {
      sum += Number(x[k]) *
             Number(p.transpose_b ? w[n * p.k + k] : w[k * p.n + n]);
    }
    y[row * p.n + n] = Rounded<T>(sum);
  }
}

// A block has a row of a sum: of the gradient of a weight, or without x of
// rows.
template <typename T, typename Sum>
__global__ void __launch_bounds__(kThreads)
    SumKernel(PackedProblem p, const T* x, const T* dy, const void* ends,
              Sum* sums) {
  int64_t m = x == nullptr ? 1 : p.m;
  int64_t at = blockIdx.x / m, i = blockIdx.x % m;  // a sum, and its row
  int64_t lead = at / p.experts, expert = at % p.experts;
  for (int64_t n = threadIdx.x; n < p.n; n += kThreads) {
    Wide<T> sum = 0;
    for (int64_t g = 0; g < p.groups_of_lead; ++g) {
      Range range = RowsOf(p, ends, lead * p.groups_of_lead + g, expert);
      for (int64_t row = range.begin; row < range.end; ++row) {
        Wide<T> factor = x == nullptr ? Wide<T>(1) : Number(x[row * p.m + i]);
        sum += factor * Number(dy[row * p.n + n]);
      }
    }
    sums[blockIdx.x * p.n + n] = Rounded<Sum>(sum);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    ExpandKernel(PackedProblem p, int64_t units, const T* values,
                 const void* ends, T* rows) {
  int64_t row = blockIdx.x, expert = ExpertOf(p, ends, row);
  for (int64_t i = threadIdx.x; i < units; i += kThreads) {
    rows[row * units + i] = values[expert * units + i];
  }
}

template <typename T, typename Sum>
cudaError_t LaunchSum(const PackedProblem& p, const void* x, const void* dy,
                      const void* ends, void* sums, cudaStream_t stream) {
  int64_t blocks = p.leads() * p.experts * (x == nullptr ? 1 : p.m);
  if (!IsGrid(blocks)) return cudaErrorInvalidConfiguration;
  SumKernel<T, Sum><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      p, static_cast<const T*>(x), static_cast<const T*>(dy), ends,
      static_cast<Sum*>(sums));
  return cudaPeekAtLastError();
}

}  // namespace

cudaError_t PackedMatmul(const PackedProblem& p, const void* rows,
                         const void* weights, const void* ends,
                         const void* residual, void* y, cudaStream_t stream) {
  if (!IsGrid(p.rows)) return cudaErrorInvalidConfiguration;
  return WithFloat(p.element, [&](auto number) {
    using T = decltype(number);
    MatmulKernel<T><<<static_cast<unsigned>(p.rows), kThreads, 0, stream>>>(
        p, static_cast<const T*>(rows), static_cast<const T*>(weights), ends,
        static_cast<const T*>(residual), static_cast<T*>(y));
    return cudaPeekAtLastError();
  });
}

cudaError_t PackedWgrad(const PackedProblem& p, const void* x, const void* dy,
                        const void* ends, void* sums, cudaStream_t stream) {
  return WithFloat(p.element, [&](auto number) {
    using T = decltype(number);
    return LaunchSum<T, Wide<T>>(p, x, dy, ends, sums, stream);
  });
}

cudaError_t PackedSum(const PackedProblem& p, const void* rows,
                      const void* ends, void* sums, cudaStream_t stream) {
  return WithFloat(p.element, [&](auto number) {
    using T = decltype(number);
    return LaunchSum<T, T>(p, nullptr, rows, ends, sums, stream);
  });
}

cudaError_t PackedExpand(const PackedProblem& p, const void* values,
                         const void* ends, int64_t row_bytes, void* rows,
                         cudaStream_t stream) {
  if (!IsGrid(p.rows)) return cudaErrorInvalidConfiguration;
  return InUnits(row_bytes, [&](auto unit) {
    using T = decltype(unit);
    ExpandKernel<T><<<static_cast<unsigned>(p.rows), kThreads, 0, stream>>>(
        p, row_bytes / static_cast<int64_t>(sizeof(T)),
        static_cast<const T*>(values), ends, static_cast<T*>(rows));
    return cudaPeekAtLastError();
  });
}

}  // namespace asyra::cuda
