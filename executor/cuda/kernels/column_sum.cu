// Bound by memory: a matrix is read once, 16 bytes of neighbouring columns at a
// time, four rows in flight; the partial sums are a few hundred a column.
#include <algorithm>

#include "executor/cuda/kernels/column_sum.h"
#include "executor/cuda/kernels/number.cuh"
#include "ir/support/round_up.h"

namespace asyra::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kRows = 8;      // of threads in a block
constexpr int kInFlight = 4;  // rows that a thread loads before it adds one
constexpr int64_t kBlocks = 132 * 8;
constexpr int64_t kLeastRows = 256, kLeastRowsOfChunk = 64;
// Enough for threads with a vector each to fill the GPU.
constexpr int64_t kManyColumns = 1 << 18;

template <typename T>
constexpr int kVector = 16 / sizeof(T);

int64_t VectorOf(Element element) {
  if (element == Element::kF64) return 2;
  return element == Element::kF32 ? 4 : 8;
}

template <typename T, typename S>
__global__ void __launch_bounds__(kWarp* kRows)
    ChunkKernel(const __grid_constant__ ColumnSum p, const T* x, S* partial) {
  constexpr int n = kVector<T>;
  using Vector = Pack<T, n>;
  __shared__ S shared[kRows][kWarp * n];
  int64_t column = (int64_t{blockIdx.x} * kWarp + threadIdx.x) * n;
  int64_t each = (p.rows + p.chunks - 1) / p.chunks;
  int64_t begin = blockIdx.y * each;
  int64_t end = begin + each < p.rows ? begin + each : p.rows;
  S sums[n] = {};
  auto add = [&](const Vector& vector) {
#pragma unroll
    for (int i = 0; i < n; ++i) sums[i] += Number(vector.at[i]);
  };
  if (column < p.columns) {
    auto at = [&](int64_t row) {
      return *reinterpret_cast<const Vector*>(x + row * p.columns + column);
    };
    int64_t r = begin + threadIdx.y;
    for (; r + (kInFlight - 1) * kRows < end; r += kInFlight * kRows) {
      Vector loaded[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) loaded[k] = at(r + k * kRows);
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) add(loaded[k]);
    }
    for (; r < end; r += kRows) add(at(r));
  }
#pragma unroll
  for (int i = 0; i < n; ++i) {
    shared[threadIdx.y][threadIdx.x * n + i] = sums[i];
  }
  __syncthreads();
  // Neighbouring threads have neighbouring columns.
  int64_t first = int64_t{blockIdx.x} * kWarp * n;
  for (int c = threadIdx.y * kWarp + threadIdx.x; c < kWarp * n;
       c += kWarp * kRows) {
    if (first + c >= p.columns) continue;
    S sum = 0;
    for (int y = 0; y < kRows; ++y) sum += shared[y][c];
    partial[blockIdx.y * p.columns + first + c] = sum;
  }
}

template <typename S>
__global__ void __launch_bounds__(kWarp* kWarp)
    FinishKernel(const __grid_constant__ ColumnSum p, const S* partial,
                 void* to) {
  __shared__ S shared[kWarp][kWarp];
  int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  S sum = 0;
  if (column < p.columns) {
#pragma unroll 4
    for (int64_t i = threadIdx.y; i < p.chunks; i += kWarp) {
      sum += partial[i * p.columns + column];
    }
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= p.columns) return;
  for (int i = 1; i < kWarp; ++i) sum += shared[i][threadIdx.x];
  StoreElement(to, p.result, column, sum);
}

// Few rows of many columns: a thread has its columns of all rows.
template <typename T, typename S>
__global__ void __launch_bounds__(kWarp* kRows)
    WholeKernel(const __grid_constant__ ColumnSum p, const T* x, void* to) {
  constexpr int n = kVector<T>;
  using Vector = Pack<T, n>;
  int64_t column = (int64_t{blockIdx.x} * kWarp * kRows + threadIdx.x) * n;
  if (column >= p.columns) return;
  S sums[n] = {};
  for (int64_t r = 0; r < p.rows; r += kInFlight) {
    Vector loaded[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (r + k >= p.rows) continue;
      loaded[k] =
          *reinterpret_cast<const Vector*>(x + (r + k) * p.columns + column);
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (r + k >= p.rows) continue;
#pragma unroll
      for (int i = 0; i < n; ++i) sums[i] += Number(loaded[k].at[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < n; ++i) StoreElement(to, p.result, column + i, sums[i]);
}

}  // namespace

bool PlanColumnSum(ColumnSum* p) {
  bool is_float = p->element == Element::kF16 || p->element == Element::kBF16 ||
                  p->element == Element::kF32 || p->element == Element::kF64;
  int64_t n = VectorOf(p->element);
  if (!is_float || p->columns == 0 || p->columns % n != 0) return false;
  if (p->rows < kLeastRows) {
    p->chunks = 0;
    return p->rows > 0 && p->columns >= kManyColumns;
  }
  int64_t wanted = DivideUp(kBlocks, DivideUp(p->columns, kWarp * n));
  p->chunks = std::clamp<int64_t>(wanted, 1, p->rows / kLeastRowsOfChunk);
  return true;
}

int64_t WorkspaceBytes(const ColumnSum& p) {
  return p.chunks * p.columns * (p.element == Element::kF64 ? 8 : 4);
}

cudaError_t SumColumns(const ColumnSum& p, const void* x, void* workspace,
                       void* to, cudaStream_t stream) {
  return WithFloat(p.element, [&](auto number) {
    using T = decltype(number);
    using S = typename SumOf<T>::Type;
    auto* partial = static_cast<S*>(workspace);
    if (p.chunks == 0) {
      int64_t each = kWarp * kRows * kVector<T>;
      WholeKernel<T, S>
          <<<static_cast<unsigned>(DivideUp(p.columns, each)), kWarp * kRows, 0,
             stream>>>(p, static_cast<const T*>(x), to);
      return cudaPeekAtLastError();
    }
    dim3 grid(static_cast<unsigned>(DivideUp(p.columns, kWarp * kVector<T>)),
              static_cast<unsigned>(p.chunks));
    ChunkKernel<T, S><<<grid, dim3(kWarp, kRows), 0, stream>>>(
        p, static_cast<const T*>(x), partial);
    FinishKernel<<<static_cast<unsigned>(DivideUp(p.columns, kWarp)),
                   dim3(kWarp, kWarp), 0, stream>>>(p, partial, to);
    return cudaPeekAtLastError();
  });
}

}  // namespace asyra::cuda
