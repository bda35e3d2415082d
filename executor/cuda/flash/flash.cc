#include "executor/cuda/flash/flash.h"

#include <limits>
#include <type_traits>

#include "absl/container/flat_hash_map.h"
#include "executor/cuda/codegen/nvrtc_module.h"
#include "executor/cuda/device/cuda_status.h"
#include "executor/cuda/flash/flash_arguments.h"
#include "executor/cuda/flash/flash_text.h"
#include "ir/gpu/attention_kernel.h"
#include "ir/support/alignment.h"
#include "ir/support/round_up.h"

namespace asyra::cuda {
namespace {

bool Is16Bit(Element element) {
  return element == Element::kBF16 || element == Element::kF16;
}

bool IsInt32(int64_t value) {
  return value >= std::numeric_limits<int32_t>::min() &&
         value <= std::numeric_limits<int32_t>::max();
}

absl::Status CheckFlashTakes(const AttentionProblem& p, bool gradient) {
  std::string obstacle = FlashObstacle({.sixteen_bits = Is16Bit(p.element),
                                        .head = p.d,
                                        .value = p.e,
                                        .hidden = p.hidden,
                                        .gradient = gradient});
  if (!obstacle.empty()) return Unimplemented("{}", obstacle);
  if (p.s == 0 || p.t == 0 || p.b == 0) return Unimplemented("no rows or keys");
  for (int64_t number : {p.s, p.t, p.first_row, p.window, p.window_after}) {
    if (!IsInt32(2 * number)) return Unimplemented("a length of {}", number);
  }
  if (p.b > 65535 || p.h > 65535) return Unimplemented("{} heads", p.b * p.h);
  // Later GPUs do not have the instructions of the kernels.
  ASYRA_ASSIGN_OR_RETURN(int architecture, ArchitectureOfGpu());
  if (architecture == 90) return absl::OkStatus();
  return Unimplemented("a GPU of architecture {}", architecture);
}

// The copy engine's rows begin at multiples of 16 bytes.
constexpr int64_t kCopiedElements = 8;

FlashDesign DesignOf(const AttentionProblem& p,
                     const AttentionOperands& operands) {
  FlashDesign design = {.bf16 = p.element == Element::kBF16,
                        .d = p.d,
                        .e = p.e,
                        .cap = p.softcap > 0};
  if (operands.mask >= 0) design.mask = p.mask;
  design.mask_keys = p.mask_strides[3] == 0 ? 0 : 1;
  design.mask_pairs = p.mask_strides[3] == 1;
  for (int dim = 0; dim < 3; ++dim) {
    design.mask_pairs = design.mask_pairs && p.mask_strides[dim] % 2 == 0;
  }
  design.mask_copies = design.mask.has_value() && Is16Bit(*design.mask) &&
                       p.mask_strides[3] == 1 && p.mask_strides[2] > 0;
  for (int dim = 0; dim < 3; ++dim) {
    design.mask_copies =
        design.mask_copies && p.mask_strides[dim] % kCopiedElements == 0;
  }
  if (operands.sinks >= 0) design.sinks = p.sinks;
  if (operands.lengths >= 0) design.lengths = p.lengths;
  if (operands.starts >= 0) design.starts = p.starts;
  return design;
}

// Returns a design whose mask is copied only where an SM has room for that.
FlashDesign Fitting(FlashDesign design,
                    FlashTiling (*tiling)(const FlashDesign&)) {
  if (tiling(design).shared_bytes > kMostShared) design.mask_copies = false;
  return design;
}

// Adds tiles of what costs little to read beside what they save: of starts, and
// of a mask that heads share.
void AddTiles(const AttentionProblem& p, const FlashTiling& tiling,
              FlashDesign* design) {
  const bool starts = design->starts.has_value();
  bool shared_mask = design->mask.has_value() && p.mask_strides[1] == 0;
  if (!starts && !shared_mask) return;
  auto count = [&](int dim, int64_t size, int64_t of) {
    return !starts && p.mask_strides[dim] == 0 ? 1 : (size + of - 1) / of;
  };
  design->tiles[0] = count(0, p.b, 1);
  design->tiles[1] = 1;
  design->tiles[2] = count(2, p.s, tiling.rows);
  design->tiles[3] = count(3, p.t, tiling.keys);
}

int64_t TileCount(const FlashDesign& design) {
  return design.tiles[0] * design.tiles[1] * design.tiles[2] * design.tiles[3];
}

FlashParams ParamsOf(const AttentionProblem& p, const FlashDesign& design) {
  FlashParams params = {};
  int64_t stride = 1;
  for (int dim = 3; dim >= 0; --dim) {
    params.mask_strides[dim] = p.mask_strides[dim];
    bool many = design.tiles[dim] > 1;
    params.tile_strides[dim] = many ? stride : 0;
    stride *= std::max<int64_t>(design.tiles[dim], 1);
  }
  params.b = static_cast<int32_t>(p.b);
  params.s = static_cast<int32_t>(p.s);
  params.h = static_cast<int32_t>(p.h);
  params.t = static_cast<int32_t>(p.t);
  params.keys = static_cast<int32_t>(p.keys);
  params.g = static_cast<int32_t>(p.g);
  params.first_row = static_cast<int32_t>(p.first_row);
  params.window = static_cast<int32_t>(p.window);
  params.window_after = static_cast<int32_t>(p.window_after);
  params.at_end = p.at_end ? 1 : 0;
  params.empty_is_nan = p.empty_is_nan ? 1 : 0;
  params.scale = static_cast<float>(p.scale);
  params.softcap = static_cast<float>(p.softcap);
  return params;
}

absl::StatusOr<cudaKernel_t> CompileFlash(const std::string& text,
                                          const char* name,
                                          int64_t shared_bytes) {
  ASYRA_ASSIGN_OR_RETURN(cudaKernel_t kernel,
                         CompileKernel(text, name, {.own_features = true}));
  ASYRA_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes)));
  return kernel;
}

absl::Status LaunchFlash(cudaKernel_t kernel, dim3 grid, int threads,
                         int64_t shared_bytes, FlashParams* params,
                         cudaStream_t stream) {
  void* args[] = {params};
  ASYRA_CUDA(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid,
                              dim3(threads), args,
                              static_cast<size_t>(shared_bytes), stream));
  return absl::OkStatus();
}

// The arguments of a use's kernels, and the kernel of its mask's tiles.
class FlashKernel : public CudaKernel {
 protected:
  FlashKernel(const AttentionProblem& problem,
              const AttentionOperands& operands,
              FlashTiling (*tiling)(const FlashDesign&))
      : problem_(problem),
        operands_(operands),
        design_(Fitting(DesignOf(problem, operands), tiling)),
        tiling_(tiling(design_)) {
    AddTiles(problem_, tiling_, &design_);
    params_ = ParamsOf(problem_, design_);
  }

  // Compiles the kernel `name` and that of tiles. Error: no room on an SM.
  absl::StatusOr<cudaKernel_t> Compile(const std::string& text,
                                       const char* name) {
    if (tiling_.shared_bytes > kMostShared) {
      return Unimplemented("heads of {} and {}", problem_.d, problem_.e);
    }
    if (design_.tiles[0] > 0) {
      ASYRA_ASSIGN_OR_RETURN(tiles_, CompileFlash(text, "flash_tiles", 0));
    }
    return CompileFlash(text, name, tiling_.shared_bytes);
  }

  // Sets the addresses that all kernels have, and enqueues that of tiles, which
  // go to `tiles`.
  absl::Status Begin(const AttentionData& data, std::byte* tiles,
                     cudaStream_t stream) {
    params_.mask = data.mask;
    params_.lengths = data.lengths;
    params_.sinks = data.sinks;
    params_.starts = data.starts;
    params_.tiles = reinterpret_cast<unsigned char*>(tiles);
    const AttentionProblem& p = problem_;
    ASYRA_RETURN_IF_ERROR(Map(data.q, p.s, p.h, p.d, tiling_.rows, &params_.q));
    ASYRA_RETURN_IF_ERROR(Map(data.k, p.t, p.g, p.d, tiling_.keys, &params_.k));
    ASYRA_RETURN_IF_ERROR(Map(data.v, p.t, p.g, p.e, tiling_.keys, &params_.v));
    if (design_.mask_copies) ASYRA_RETURN_IF_ERROR(MapMask(data.mask));
    if (tiles_ == nullptr) return absl::OkStatus();
    return LaunchFlash(tiles_, dim3(static_cast<unsigned>(TileCount(design_))),
                       128, 0, &params_, stream);
  }

  absl::Status Map(const void* data, int64_t rows, int64_t heads, int64_t width,
                   int box_rows, TensorMap* map) {
    return Map(
        {data, problem_.element, problem_.b, rows, heads, width, box_rows},
        map);
  }

  const AttentionProblem problem_;
  const AttentionOperands operands_;
  FlashDesign design_;
  const FlashTiling tiling_;
  FlashParams params_;

 private:
  // Encodes a map anew where its data has moved, which is seldom.
  absl::Status Map(const HeadsMap& of, TensorMap* map) {
    const void*& encoded = encoded_[map];
    if (encoded == of.data) return absl::OkStatus();
    ASYRA_RETURN_IF_ERROR(Encode(of, map));
    encoded = of.data;
    return absl::OkStatus();
  }

  // Dimensions along which the mask broadcasts have one entry.
  absl::Status MapMask(const void* data) {
    const AttentionProblem& p = problem_;
    const int64_t* strides = p.mask_strides;
    auto count = [&](int dim, int64_t size) {
      return strides[dim] == 0 ? 1 : size;
    };
    return Map({.data = data,
                .element = p.mask,
                .batch = count(0, p.b),
                .rows = p.s,
                .heads = count(1, p.h),
                .width = p.t,
                .box_rows = tiling_.rows,
                .row_stride = strides[2],
                .head_stride = strides[1] == 0 ? strides[2] : strides[1],
                .batch_stride = strides[0] == 0 ? strides[2] : strides[0]},
               &params_.mask_tiles);
  }

  cudaKernel_t tiles_ = nullptr;
  absl::flat_hash_map<TensorMap*, const void*> encoded_;
};

class FlashAttention : public FlashKernel {
 public:
  FlashAttention(const AttentionProblem& problem,
                 const AttentionOperands& operands, bool has_log_sums)
      : FlashKernel(problem, operands, ForwardTiling),
        has_log_sums_(has_log_sums) {}

  absl::Status Prepare() {
    ASYRA_ASSIGN_OR_RETURN(kernel_,
                           Compile(FlashForwardText(design_), "flash_forward"));
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override { return TileCount(design_); }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    params_.y = args.results[0];
    params_.log_sums = has_log_sums_ ? args.results[1] : nullptr;
    ASYRA_RETURN_IF_ERROR(Begin(operands_.DataOf(args),
                                static_cast<std::byte*>(args.workspace),
                                stream));
    const AttentionProblem& p = problem_;
    dim3 grid(static_cast<unsigned>((p.s + tiling_.rows - 1) / tiling_.rows),
              static_cast<unsigned>(p.h), static_cast<unsigned>(p.b));
    return LaunchFlash(kernel_, grid, 128 * (tiling_.groups + 1),
                       tiling_.shared_bytes, &params_, stream);
  }

 private:
  const bool has_log_sums_;
  cudaKernel_t kernel_ = nullptr;
};

class FlashAttentionGrad : public FlashKernel {
 public:
  FlashAttentionGrad(const AttentionProblem& problem,
                     const AttentionOperands& operands)
      : FlashKernel(problem, operands, BackwardTiling),
        heads_(problem.b * problem.h),
        row_tiles_((problem.s + tiling_.rows - 1) / tiling_.rows) {
    int64_t rows = heads_ * row_tiles_ * tiling_.rows;
    means_bytes_ = RoundUp(rows * 8, kWorkspaceAlignment);
    int64_t columns = tiling_.groups * DqColumns(design_, tiling_.groups);
    dq_bytes_ = RoundUp(rows * columns * 4, kWorkspaceAlignment);
  }

  absl::Status Prepare() {
    std::string text = FlashBackwardText(design_);
    ASYRA_ASSIGN_OR_RETURN(kernel_, Compile(text, "flash_backward"));
    ASYRA_ASSIGN_OR_RETURN(rows_, CompileFlash(text, "flash_rows", 0));
    ASYRA_ASSIGN_OR_RETURN(dq_, CompileFlash(text, "flash_dq", 0));
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override {
    return dq_bytes_ + means_bytes_ + TileCount(design_);
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_RETURN_IF_ERROR(Point(args, stream));
    const AttentionProblem& p = problem_;
    auto launch = [&](cudaKernel_t kernel, dim3 grid, int threads,
                      int64_t shared = 0) {
      return LaunchFlash(kernel, grid, threads, shared, &params_, stream);
    };
    auto blocks = [](int64_t count) {
      return dim3(static_cast<unsigned>(count));
    };
    ASYRA_CUDA(
        cudaMemsetAsync(params_.dq, 0, static_cast<size_t>(dq_bytes_), stream));
    int64_t rows = heads_ * row_tiles_ * tiling_.rows;
    ASYRA_RETURN_IF_ERROR(launch(rows_, blocks((rows + 3) / 4), 128));
    dim3 grid(static_cast<unsigned>((p.t + tiling_.keys - 1) / tiling_.keys),
              static_cast<unsigned>(p.g), static_cast<unsigned>(p.b));
    ASYRA_RETURN_IF_ERROR(launch(kernel_, grid, 128 * (tiling_.groups + 1),
                                 tiling_.shared_bytes));
    return launch(dq_, blocks(heads_ * row_tiles_), 128 * tiling_.groups);
  }

 private:
  absl::Status Point(const KernelArgs& args, cudaStream_t stream) {
    params_.y = args.operands[kGradY];
    params_.dy_data = args.operands[kGradDy];
    params_.log_sums_in = args.operands[kGradLogSums];
    auto* workspace = static_cast<std::byte*>(args.workspace);
    params_.dq = workspace;
    params_.means = workspace + dq_bytes_;
    params_.dq_out = args.results[0];
    params_.dk = args.results[1];
    params_.dv = args.results[2];
    const AttentionProblem& p = problem_;
    ASYRA_RETURN_IF_ERROR(
        Map(params_.dy_data, p.s, p.h, p.e, tiling_.rows, &params_.dy));
    return Begin(operands_.DataOf(args), workspace + dq_bytes_ + means_bytes_,
                 stream);
  }

  const int64_t heads_, row_tiles_;
  int64_t means_bytes_ = 0, dq_bytes_ = 0;
  cudaKernel_t rows_ = nullptr, kernel_ = nullptr, dq_ = nullptr;
};

// A kernel of the class for a use that it takes.
template <typename Flash, typename... More>
absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareFlash(
    const AttentionProblem& problem, const AttentionOperands& operands,
    More... more) {
  ASYRA_RETURN_IF_ERROR(
      CheckFlashTakes(problem, std::is_same_v<Flash, FlashAttentionGrad>));
  auto kernel = std::make_unique<Flash>(problem, operands, more...);
  ASYRA_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareFlashAttention(
    const AttentionProblem& problem, const AttentionOperands& operands,
    bool log_sums) {
  return PrepareFlash<FlashAttention>(problem, operands, log_sums);
}

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareFlashAttentionGrad(
    const AttentionProblem& problem, const AttentionOperands& operands) {
  return PrepareFlash<FlashAttentionGrad>(problem, operands);
}

}  // namespace asyra::cuda
