// Bound by memory: x and dy (and what is added) are read once, dx is written
// once. Blocks stay for many rows: the next ones are on their way to shared
// memory while one is reduced. Each keeps its sums over rows in registers, for
// which a second kernel adds up some hundred values a column.
#include <algorithm>

#include "executor/cuda/kernels/norm_grad.h"
#include "executor/cuda/kernels/norm_rows.cuh"

namespace asyra::cuda {
namespace {

constexpr int kMostThreads = 512;
// Rows of up to two vectors for each of so many threads: at the clock of long
// steps 81 us for 8192 rows of 4096, where twice as many with a vector take 91.
constexpr int kFewThreads = 256;
constexpr int kWarpRows = 4;      // warps of a block, each with rows of its own
constexpr int kMostHeld = 4;      // vectors of a row that a thread keeps
constexpr int kAnyThreads = 256;  // of rows of any size
constexpr int64_t kChunks = 64;   // of rows, in sums over columns
// Each adds to what the second kernel reads.
constexpr int kMostBlocksOfSm = 12;

__device__ inline float InverseRoot(float x) { return rsqrtf(x); }
__device__ inline double InverseRoot(double x) { return rsqrt(x); }

// Values that a row is normalized with, and the means in the gradient.
template <typename S>
struct RowNumbers {
  S mean = 0, inverse = 0;
  S slope = 0, shift = 0;  // mean(dn n), mean(dn)
};

// Finishes a row from the sums of squares of x - mean, of dn (x - mean) and of
// dn; `share` is 1 / size.
template <typename S>
__device__ void FinishRow(const S (&sums)[3], S share, S eps,
                          RowNumbers<S>* row) {
  row->inverse = InverseRoot(sums[0] * share + eps);
  row->slope = row->inverse * sums[1] * share;
  row->shift = sums[2] * share;
}

// Rows in shared memory: some 64 KiB of an SM are under way.
template <int held>
constexpr int kStages = held == 1   ? 4
                        : held <= 3 ? 3
                                    : 2;

int64_t PipelineBytes(const NormGrad& p, int stages) {
  return int64_t{stages} * (p.has_rest ? 3 : 2) * p.held * p.threads * 16;
}

// Blocks of threads that an SM should hold at least.
template <typename Team, int held>
constexpr int kBlocks = Team::kIsWarp ? 12 / (held + 1)
                        : held == 1   ? 2
                                      : 1;

template <typename Team, typename T, typename S, bool centered, int held>
__global__ void __launch_bounds__(Team::kIsWarp ? kWarpRows* kWarp
                                                : kMostThreads,
                                  kBlocks<Team, held>)
    HeldKernel(const __grid_constant__ NormGrad p, const T* x, const T* scale,
               const T* dy, const T* rest, T* dx, S* partial) {
  constexpr int n = kVector<T>;
  constexpr int stages = kStages<held>;
  extern __shared__ __align__(16) unsigned char lines[];
  __shared__ S shared[2 * BlockSum<S>::kMost * kWarp];
  TeamSum<Team, S> sum(shared);
  const int vectors = static_cast<int>(p.size / n);
  const S share = S(1) / static_cast<S>(p.size), eps = static_cast<S>(p.eps);
  S dscale[held][n] = {}, dbias[centered ? held : 1][n] = {};
  Pipeline<Team, T, held, stages> pipeline(lines, rest != nullptr ? 3 : 2,
                                           vectors);
  auto copy = [&](int stage, int64_t row) {
    if (row < p.rows) {
      pipeline.Copy(stage, 0, x + row * p.size);
      pipeline.Copy(stage, 1, dy + row * p.size);
      if (rest != nullptr) pipeline.Copy(stage, 2, rest + row * p.size);
    }
    pipeline.Commit();
  };
  Line<T, held> of_scale;
  LoadLine<Team>(scale, vectors, &of_scale);
  for (int k = 0; k + 1 < stages; ++k) {
    copy(k, Team::Index() + k * Team::Count());
  }
  int stage = 0;
  for (int64_t r = Team::Index(); r < p.rows; r += Team::Count()) {
    Line<T, held> of_x, of_dy, of_rest;
    pipeline.Wait();
    pipeline.Read(stage, 0, &of_x);
    pipeline.Read(stage, 1, &of_dy);
    if (rest != nullptr) pipeline.Read(stage, 2, &of_rest);
    // Into the stage that was read a row ago.
    copy(stage == 0 ? stages - 1 : stage - 1, r + (stages - 1) * Team::Count());
    stage = stage + 1 == stages ? 0 : stage + 1;
    RowNumbers<S> row;
    if (centered) {
      S total[1] = {};
#pragma unroll
      for (int j = 0; j < held; ++j) {
        if (VectorAt<Team>(j) >= vectors) continue;
#pragma unroll
        for (int i = 0; i < n; ++i) total[0] += Number(of_x.at[j].at[i]);
      }
      sum(total);
      row.mean = total[0] * share;
    }
    S sums[centered ? 3 : 2] = {};
#pragma unroll
    for (int j = 0; j < held; ++j) {
      if (VectorAt<Team>(j) >= vectors) continue;
#pragma unroll
      for (int i = 0; i < n; ++i) {
        S c = Number(of_x.at[j].at[i]) - row.mean;
        S dn = S(Number(of_dy.at[j].at[i])) * S(Number(of_scale.at[j].at[i]));
        sums[0] += c * c;
        sums[1] += dn * c;
        if (centered) sums[sizeof(sums) / sizeof(S) - 1] += dn;
      }
    }
    sum(sums);
    S all[3] = {sums[0], sums[1],
                centered ? sums[sizeof(sums) / sizeof(S) - 1] : S{0}};
    FinishRow(all, share, eps, &row);
#pragma unroll
    for (int j = 0; j < held; ++j) {
      if (VectorAt<Team>(j) >= vectors) continue;
      Pack<T, n> result;
#pragma unroll
      for (int i = 0; i < n; ++i) {
        S slope = Number(of_dy.at[j].at[i]);
        S normal = (S(Number(of_x.at[j].at[i])) - row.mean) * row.inverse;
        S dn = slope * S(Number(of_scale.at[j].at[i]));
        dscale[j][i] += slope * normal;
        if (centered) dbias[j][i] += slope;
        S value = row.inverse * (dn - normal * row.slope - row.shift);
        if (rest != nullptr) value += S(Number(of_rest.at[j].at[i]));
        result.at[i] = Rounded<T>(value);
      }
      reinterpret_cast<Pack<T, n>*>(dx + r * p.size)[VectorAt<Team>(j)] =
          result;
    }
  }
  // Sums over rows of a block go to `partial`.
  S* mine = partial + int64_t{blockIdx.x} * p.sums * p.size;
  auto put = [&](S* to, bool adds) {
#pragma unroll
    for (int j = 0; j < held; ++j) {
      if (VectorAt<Team>(j) >= vectors) continue;
#pragma unroll
      for (int i = 0; i < n; ++i) {
        int64_t column = VectorAt<Team>(j) * n + i;
        to[column] = dscale[j][i] + (adds ? to[column] : S{0});
        if (!centered || p.sums < 2) continue;
        column += p.size;
        to[column] = dbias[centered ? j : 0][i] + (adds ? to[column] : S{0});
      }
    }
  };
  if constexpr (Team::kIsWarp) {
    // Warps add up in their order, where rows were.
    S* all = reinterpret_cast<S*>(lines);
    for (int w = 0; w < kWarpRows; ++w) {
      __syncthreads();
      if (static_cast<int>(threadIdx.x) / kWarp == w) put(all, w > 0);
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < p.sums * p.size; i += blockDim.x) {
      mine[i] = all[i];
    }
  } else {
    put(mine, false);
  }
}

// Rows of any size, which are read again: a block has a row.
template <typename T, typename S>
__global__ void __launch_bounds__(kAnyThreads)
    RowKernel(const __grid_constant__ NormGrad p, const T* x, const T* scale,
              const T* dy, const T* rest, T* dx, RowNumbers<S>* rows) {
  __shared__ S shared[2 * BlockSum<S>::kMost * kWarp];
  BlockSum<S> sum(shared);
  const S share = S(1) / static_cast<S>(p.size), eps = static_cast<S>(p.eps);
  for (int64_t r = blockIdx.x; r < p.rows; r += gridDim.x) {
    int64_t first = r * p.size;
    RowNumbers<S> row;
    if (p.centered) {
      S total[1] = {};
      for (int64_t i = threadIdx.x; i < p.size; i += kAnyThreads) {
        total[0] += Number(x[first + i]);
      }
      sum(total);
      row.mean = total[0] * share;
    }
    S sums[3] = {};
    for (int64_t i = threadIdx.x; i < p.size; i += kAnyThreads) {
      S c = S(Number(x[first + i])) - row.mean;
      S dn = S(Number(dy[first + i])) * S(Number(scale[i]));
      sums[0] += c * c;
      sums[1] += dn * c;
      sums[2] += p.centered ? dn : S{0};
    }
    sum(sums);
    FinishRow(sums, share, eps, &row);
    for (int64_t i = threadIdx.x; i < p.size; i += kAnyThreads) {
      S normal = (S(Number(x[first + i])) - row.mean) * row.inverse;
      S dn = S(Number(dy[first + i])) * S(Number(scale[i]));
      S value = row.inverse * (dn - normal * row.slope - row.shift);
      if (rest != nullptr) value += S(Number(rest[first + i]));
      dx[first + i] = Rounded<T>(value);
    }
    if (threadIdx.x == 0) rows[r] = row;
  }
}

// A block has 32 columns of a chunk of the rows.
constexpr int kColumnRows = 8;

template <typename T, typename S>
__global__ void __launch_bounds__(kWarp* kColumnRows)
    ColumnKernel(const __grid_constant__ NormGrad p, const T* x, const T* dy,
                 const RowNumbers<S>* rows, S* partial) {
  __shared__ S shared[2][kColumnRows][kWarp];
  int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  S dscale = 0, dbias = 0;
  if (column < p.size) {
    for (int64_t r = int64_t{blockIdx.y} * kColumnRows + threadIdx.y;
         r < p.rows; r += int64_t{gridDim.y} * kColumnRows) {
      S slope = Number(dy[r * p.size + column]);
      dscale += slope * (S(Number(x[r * p.size + column])) - rows[r].mean) *
                rows[r].inverse;
      dbias += slope;
    }
  }
  shared[0][threadIdx.y][threadIdx.x] = dscale;
  shared[1][threadIdx.y][threadIdx.x] = dbias;
  __syncthreads();
  if (static_cast<int>(threadIdx.y) >= p.sums || column >= p.size) return;
  S sum = 0;
  for (int i = 0; i < kColumnRows; ++i)
    sum += shared[threadIdx.y][i][threadIdx.x];
  partial[(int64_t{blockIdx.y} * p.sums + threadIdx.y) * p.size + column] = sum;
}

// Adds up `count` rows of partial sums.
constexpr int kFinishRows = 32;

template <typename S>
__global__ void __launch_bounds__(kWarp* kFinishRows)
    FinishKernel(const __grid_constant__ NormGrad p, int64_t count,
                 const S* partial, S* dscale, S* dbias) {
  __shared__ S shared[kFinishRows][kWarp];
  int64_t columns = p.sums * p.size;
  int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  S sum = 0;
  if (column < columns) {
#pragma unroll 4
    for (int64_t i = threadIdx.y; i < count; i += kFinishRows) {
      sum += partial[i * columns + column];
    }
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int i = 1; i < kFinishRows; ++i) sum += shared[i][threadIdx.x];
  column < p.size ? dscale[column] = sum : dbias[column - p.size] = sum;
}

// Calls run(team, constant of centered, constant of held).
template <typename T, typename Run>
cudaError_t WithForm(const NormGrad& p, Run run) {
  auto with_held = [&](auto team, auto centered) {
    switch (p.held) {
      case 1:
        return run(team, centered, std::integral_constant<int, 1>());
      case 2:
        return run(team, centered, std::integral_constant<int, 2>());
      case 3:
        // Rows of 768 elements; blocks have a number of threads that fits.
        if constexpr (decltype(team)::kIsWarp) {
          return run(team, centered, std::integral_constant<int, 3>());
        }
        [[fallthrough]];
      default:
        return run(team, centered, std::integral_constant<int, kMostHeld>());
    }
  };
  auto with_team = [&](auto centered) {
    if constexpr (sizeof(T) == 2) {
      if (p.row_of_warp) return with_held(WarpTeam(), centered);
    }
    return with_held(BlockTeam(), centered);
  };
  return p.centered ? with_team(std::true_type())
                    : with_team(std::false_type());
}

struct Gpu {
  int sms = 0, shared_bytes = 0;  // of an SM for one block
};

template <typename S>
int64_t SumBytes(const NormGrad& p) {
  return p.sums * p.size * static_cast<int64_t>(sizeof(S));
}

// Returns the shared memory besides what blocks declare.
template <typename S>
int64_t MostShared(const Gpu& gpu) {
  return gpu.shared_bytes - 2 * BlockSum<S>::kMost * kWarp * sizeof(S);
}

template <typename S>
void PlanAny(NormGrad* p) {
  p->held = 0;
  p->blocks =
      std::min<int64_t>(kChunks, (p->rows + kColumnRows - 1) / kColumnRows);
  p->workspace_bytes = p->blocks * SumBytes<S>(*p) +
                       p->rows * static_cast<int64_t>(sizeof(RowNumbers<S>));
}

template <typename T>
cudaError_t PlanHeld(NormGrad* p, const Gpu& gpu) {
  using S = typename SumOf<T>::Type;
  return WithForm<T>(*p, [&](auto team, auto centered, auto held) {
    int per_sm = 0;
    auto kernel = HeldKernel<decltype(team), T, S, centered.value, held.value>;
    p->shared_bytes = PipelineBytes(*p, kStages<held.value>);
    if (p->shared_bytes > MostShared<S>(gpu)) {
      PlanAny<S>(p);
      return cudaSuccess;
    }
    cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
        static_cast<int>(MostShared<S>(gpu)));
    if (error != cudaSuccess) return error;
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &per_sm, kernel, p->threads, p->shared_bytes);
    per_sm = std::clamp(per_sm, 1, kMostBlocksOfSm);
    int64_t rows = p->row_of_warp ? kWarpRows : 1;
    p->blocks =
        std::min((p->rows + rows - 1) / rows, int64_t{gpu.sms} * per_sm);
    p->workspace_bytes = p->blocks * SumBytes<S>(*p);
    return error;
  });
}

template <typename T>
cudaError_t Plan(NormGrad* p, const Gpu& gpu) {
  constexpr int n = kVector<T>;
  using S = typename SumOf<T>::Type;
  int64_t vectors = (p->size + n - 1) / n;
  if (p->size % n != 0 || vectors > kMostHeld * kMostThreads) {
    PlanAny<S>(p);
    return cudaSuccess;
  }
  p->row_of_warp = sizeof(T) == 2 && vectors <= kMostHeld * kWarp;
  if (p->row_of_warp) {
    p->held = static_cast<int>((vectors + kWarp - 1) / kWarp);
    p->threads = kWarpRows * kWarp;
    return PlanHeld<T>(p, gpu);
  }
  p->held = vectors > kFewThreads ? 2 : 1;
  while (p->held < kMostHeld && vectors > p->held * kMostThreads) p->held *= 2;
  int64_t each = (vectors + p->held - 1) / p->held;
  p->threads = static_cast<int>((each + kWarp - 1) / kWarp * kWarp);
  return PlanHeld<T>(p, gpu);
}

template <typename T>
cudaError_t Run(const NormGrad& p, const NormGradArgs& a, cudaStream_t stream) {
  using S = typename SumOf<T>::Type;
  auto* x = static_cast<const T*>(a.x);
  auto* scale = static_cast<const T*>(a.scale);
  auto* dy = static_cast<const T*>(a.dy);
  auto* rest = static_cast<const T*>(a.rest);
  auto* dx = static_cast<T*>(a.dx);
  auto* partial = static_cast<S*>(a.workspace);
  auto blocks = static_cast<unsigned>(p.blocks);
  if (p.rows > 0 && p.held > 0) {
    WithForm<T>(p, [&](auto team, auto centered, auto held) {
      HeldKernel<decltype(team), T, S, centered.value, held.value>
          <<<blocks, p.threads, p.shared_bytes, stream>>>(p, x, scale, dy, rest,
                                                          dx, partial);
      return cudaSuccess;
    });
  } else if (p.rows > 0) {
    auto* rows =
        reinterpret_cast<RowNumbers<S>*>(partial + p.blocks * p.sums * p.size);
    RowKernel<<<BlocksFor(p.rows, 1), kAnyThreads, 0, stream>>>(p, x, scale, dy,
                                                                rest, dx, rows);
    dim3 grid(static_cast<unsigned>((p.size + kWarp - 1) / kWarp), blocks);
    ColumnKernel<<<grid, dim3(kWarp, kColumnRows), 0, stream>>>(p, x, dy, rows,
                                                                partial);
  }
  int64_t columns = p.sums * p.size;
  FinishKernel<<<static_cast<unsigned>((columns + kWarp - 1) / kWarp),
                 dim3(kWarp, kFinishRows), 0, stream>>>(
      p, p.rows > 0 ? p.blocks : 0, partial, static_cast<S*>(a.dscale),
      static_cast<S*>(a.dbias));
  return cudaPeekAtLastError();
}

}  // namespace

cudaError_t PlanNormGrad(NormGrad* p) {
  int device = 0;
  Gpu gpu;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  error =
      cudaDeviceGetAttribute(&gpu.sms, cudaDevAttrMultiProcessorCount, device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(
      &gpu.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  gpu.sms = std::max(1, gpu.sms - p->sm_margin);
  return WithFloat(p->element,
                   [&](auto number) { return Plan<decltype(number)>(p, gpu); });
}

cudaError_t GradOfNorm(const NormGrad& p, const NormGradArgs& args,
                       cudaStream_t stream) {
  if (p.size == 0) return cudaSuccess;
  return WithFloat(p.element, [&](auto number) {
    return Run<decltype(number)>(p, args, stream);
  });
}

}  // namespace asyra::cuda
