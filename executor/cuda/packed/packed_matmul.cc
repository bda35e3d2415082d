#include "executor/cuda/packed/packed_matmul.h"

#include <algorithm>
#include <limits>
#include <string>

#include "executor/cuda/codegen/nvrtc_module.h"
#include "executor/cuda/device/cuda_status.h"
#include "executor/cuda/hopper/device_texts.h"
#include "executor/cuda/hopper/wgmma_text.h"
#include "executor/cuda/packed/packed_arguments.h"
#include "fmt/format.h"
#include "ir/support/round_up.h"

namespace asyra::cuda {
namespace {

constexpr int kTileRows = 128, kPart = 64;  // BM and BK of packed_matmul.cuh
constexpr int kThreads = 384, kRowBytes = 128;  // of a row of a piece
constexpr int64_t kMostShared = 227 << 10;      // bytes of a block

struct PackedTiling {
  int columns = 0, stages = 0;
  int64_t piece_bytes = 0;
  int64_t shared_bytes = 0;
};

// Returns the columns of a tile: as many as a warp group's registers hold,
// unless less of the last tile is empty with fewer.
int TileColumns(int64_t n) {
  constexpr double kPreferred = 1.1;
  auto whole = [&](int64_t columns) {
    return static_cast<double>(RoundUp(n, columns));
  };
  if (n <= 64) return 64;
  return whole(192) <= kPreferred * whole(128) ? 192 : 128;
}

PackedTiling TilingOf(const PackedProblem& p) {
  PackedTiling tiling = {.columns = TileColumns(p.n)};
  int64_t stage = 2 * kPart * (kTileRows + tiling.columns);
  // Two pieces of f32 results for each of two warp groups.
  if (p.wgrad) tiling.piece_bytes = int64_t{4} * kTileRows * kRowBytes;
  // Room to begin at a multiple of 1024, and the table of segments.
  int64_t others =
      tiling.piece_bytes + 1024 + 2 * 4 * (p.groups * p.experts + 1);
  tiling.stages =
      static_cast<int>(std::min<int64_t>(6, (kMostShared - others) / stage));
  tiling.shared_bytes = tiling.stages * stage + others;
  return tiling;
}

absl::Status CheckTakes(const PackedProblem& p) {
  if (p.element != Element::kBF16 && p.element != Element::kF16) {
    return Unimplemented("elements of other than 16 bits");
  }
  // The copy engine's rows begin at multiples of 16 bytes.
  for (int64_t columns : {p.k, p.m, p.n}) {
    if (columns % 8 != 0) return Unimplemented("rows of {}", columns);
  }
  if (TilingOf(p).stages < 3) {
    return Unimplemented("{} groups of {} experts", p.groups, p.experts);
  }
  int64_t tiles = (p.rows / kTileRows + p.groups * p.experts) *
                  ((p.n + 63) / 64) * std::max<int64_t>(1, p.m / kTileRows + 1);
  for (int64_t number : {p.rows, p.k, p.m, p.n, tiles}) {
    if (number > std::numeric_limits<int32_t>::max() / 2) {
      return Unimplemented("a size of {}", number);
    }
  }
  // Later GPUs do not have the instructions of the kernels.
  ASYRA_ASSIGN_OR_RETURN(int architecture, ArchitectureOfGpu());
  if (architecture == 90) return absl::OkStatus();
  return Unimplemented("a GPU of architecture {}", architecture);
}

std::string TextOf(const PackedProblem& p, const PackedTiling& tiling) {
  std::string text;
  auto define = [&](std::string_view name, int64_t value) {
    fmt::format_to(std::back_inserter(text), "#define {} {}\n", name, value);
  };
  define("BF16", p.element == Element::kBF16 ? 1 : 0);
  define("WGRAD", p.wgrad ? 1 : 0);
  define("TRANSPOSED", p.transpose_b ? 1 : 0);
  define("ENDS_64", p.index == Element::kI64 ? 1 : 0);
  define("BN", tiling.columns);
  define("STAGES", tiling.stages);
  define("PIECE_BYTES", tiling.piece_bytes);
  define("RESIDUAL", p.residual ? 1 : 0);
  // 128 threads of one and 256 of the other have 64512 registers of 65536.
  define("PRODUCER_REGS", 40);
  define("CONSUMER_REGS", 232);
  define("kF32", static_cast<int>(Element::kF32));
  define("kBF16", static_cast<int>(Element::kBF16));
  text += kTensorMapWords;
  text += kPackedParams;
  text += kNumbers;
  text += kHopper;
  text +=
      WgmmaText(p.element == Element::kBF16, tiling.columns, WgmmaA::kShared,
                p.wgrad, p.wgrad || !p.transpose_b, "Product");
  text += kPackedTiles;
  text += kPackedMatmul;
  return text;
}

class PackedKernel : public CudaKernel {
 public:
  PackedKernel(const PackedProblem& problem, int sms)
      : problem_(problem), tiling_(TilingOf(problem)), sms_(sms) {
    auto small = [](int64_t number) { return static_cast<int>(number); };
    params_.rows = small(problem.rows);
    params_.group_rows = small(problem.group_rows());
    params_.groups = small(problem.groups);
    params_.groups_of_lead = small(problem.groups_of_lead);
    params_.experts = small(problem.experts);
    params_.k = small(problem.k);
    params_.m = small(problem.m);
    params_.n = small(problem.n);
  }

  absl::Status Prepare() {
    ASYRA_ASSIGN_OR_RETURN(
        kernel_, CompileKernel(TextOf(problem_, tiling_), "packed_matmul",
                               {.own_features = true}));
    ASYRA_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel_),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(tiling_.shared_bytes)));
    return absl::OkStatus();
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_RETURN_IF_ERROR(Map(args.operands[0], args.operands[1]));
    params_.ends = args.operands[2];
    params_.y = args.results[0];
    if (problem_.residual) params_.residual = args.operands[3];
    if (problem_.wgrad) ASYRA_RETURN_IF_ERROR(MapSums(args.results[0]));
    void* given[] = {&params_};
    ASYRA_CUDA(cudaLaunchKernel(
        reinterpret_cast<const void*>(kernel_),
        dim3(static_cast<unsigned>(sms_)), dim3(kThreads), given,
        static_cast<size_t>(tiling_.shared_bytes), stream));
    return absl::OkStatus();
  }

 private:
  // Encodes maps anew where their data has moved, which is seldom.
  absl::Status Map(const void* a, const void* b) {
    if (a == a_ && b == b_) return absl::OkStatus();
    const PackedProblem& p = problem_;
    HeadsMap of_a = {a, p.element,           1,        p.rows,
                     1, p.wgrad ? p.m : p.k, kTileRows};
    HeadsMap of_b = {b, p.element, p.experts, p.k, 1, p.n, kPart};
    if (p.wgrad) {
      of_a.box_rows = kPart;
      of_b.batch = 1;
      of_b.rows = p.rows;
    } else if (p.transpose_b) {
      of_b.rows = p.n;
      of_b.width = p.k;
      of_b.box_rows = tiling_.columns;
    }
    ASYRA_RETURN_IF_ERROR(Encode(of_a, &params_.a));
    ASYRA_RETURN_IF_ERROR(Encode(of_b, &params_.b));
    a_ = a;
    b_ = b;
    return absl::OkStatus();
  }

  absl::Status MapSums(const void* sums) {
    if (sums == sums_) return absl::OkStatus();
    const PackedProblem& p = problem_;
    ASYRA_RETURN_IF_ERROR(Encode(
        {sums, Element::kF32, p.leads() * p.experts, p.m, 1, p.n, kTileRows},
        &params_.sums));
    sums_ = sums;
    return absl::OkStatus();
  }

  const PackedProblem problem_;
  const PackedTiling tiling_;
  const int sms_;
  PackedParams params_ = {};
  const void* a_ = nullptr;
  const void* b_ = nullptr;
  const void* sums_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareHopperPacked(
    const PackedProblem& problem, int sms) {
  ASYRA_RETURN_IF_ERROR(CheckTakes(problem));
  auto kernel = std::make_unique<PackedKernel>(problem, sms);
  ASYRA_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

}  // namespace asyra::cuda
