#include "executor/cuda/flash/flash.h"

#include <cmath>
#include <limits>

#include "executor/cuda/codegen/nvrtc_module.h"
#include "executor/cuda/device/cuda_status.h"
#include "executor/cuda/flash/flash_text.h"
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

// The GPU has the instructions of the kernels, which later ones do not have.
absl::Status CheckHopper() {
  int gpu = 0, major = 0, minor = 0;
  ASYRA_CUDA(cudaGetDevice(&gpu));
  ASYRA_CUDA(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu));
  ASYRA_CUDA(
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu));
  if (major == 9 && minor == 0) return absl::OkStatus();
  return Unimplemented("compute capability {}.{}, not 9.0", major, minor);
}

absl::Status CheckFlashTakes(const AttentionProblem& p) {
  if (!Is16Bit(p.element))
    return Unimplemented("elements of other than 16 bits");
  if (p.d % 8 != 0 || p.e % 8 != 0 || p.d > 256 || p.e > 256) {
    return Unimplemented("heads of {} and {}", p.d, p.e);
  }
  if (std::isfinite(p.hidden)) {
    return Unimplemented("hidden keys of score {}", p.hidden);
  }
  if (p.s == 0 || p.t == 0 || p.b == 0) return Unimplemented("no rows or keys");
  for (int64_t number : {p.s, p.t, p.first_row, p.window, p.window_after}) {
    if (!IsInt32(2 * number)) return Unimplemented("a length of {}", number);
  }
  if (p.b > 65535 || p.h > 65535) return Unimplemented("{} heads", p.b * p.h);
  return CheckHopper();
}

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
  if (operands.sinks >= 0) design.sinks = p.sinks;
  if (operands.lengths >= 0) design.lengths = p.lengths;
  return design;
}

// Adds tiles of a mask that costs little to read beside what they save: one
// that heads share.
void AddTiles(const AttentionProblem& p, const FlashTiling& tiling,
              FlashDesign* design) {
  if (!design->mask.has_value() || p.mask_strides[1] != 0) return;
  auto count = [](int64_t stride, int64_t size, int64_t of) {
    return stride == 0 ? 1 : (size + of - 1) / of;
  };
  design->tiles[0] = count(p.mask_strides[0], p.b, 1);
  design->tiles[1] = 1;
  design->tiles[2] = count(p.mask_strides[2], p.s, tiling.rows);
  design->tiles[3] = count(p.mask_strides[3], p.t, tiling.keys);
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
  params.g = static_cast<int32_t>(p.g);
  params.first_row = static_cast<int32_t>(p.first_row);
  params.window = static_cast<int32_t>(p.window);
  params.window_after = static_cast<int32_t>(p.window_after);
  params.at_end = p.at_end ? 1 : 0;
  params.empty_is_nan = p.empty_is_nan ? 1 : 0;
  params.scale = static_cast<float>(p.scale);
  params.softcap = static_cast<float>(p.softcap);
  params.hidden = static_cast<float>(p.hidden);
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

class FlashAttention : public CudaKernel {
 public:
  FlashAttention(const AttentionProblem& problem,
                 const AttentionOperands& operands, bool has_log_sums)
      : problem_(problem),
        operands_(operands),
        has_log_sums_(has_log_sums),
        design_(DesignOf(problem, operands)),
        tiling_(ForwardTiling(design_)) {
    AddTiles(problem_, tiling_, &design_);
    params_ = ParamsOf(problem_, design_);
  }

  absl::Status Prepare() {
    if (tiling_.shared_bytes > kMostShared) {
      return Unimplemented("heads of {} and {}", problem_.d, problem_.e);
    }
    std::string text = FlashForwardText(design_);
    ASYRA_ASSIGN_OR_RETURN(
        kernel_, CompileFlash(text, "flash_forward", tiling_.shared_bytes));
    if (design_.tiles[0] == 0) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(tiles_, CompileFlash(text, "flash_tiles", 0));
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override { return TileCount(design_); }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_RETURN_IF_ERROR(Point(args));
    if (tiles_ != nullptr) {
      ASYRA_RETURN_IF_ERROR(
          LaunchFlash(tiles_, dim3(static_cast<unsigned>(workspace_bytes())),
                      128, 0, &params_, stream));
    }
    const AttentionProblem& p = problem_;
    dim3 grid(static_cast<unsigned>((p.s + tiling_.rows - 1) / tiling_.rows),
              static_cast<unsigned>(p.h), static_cast<unsigned>(p.b));
    return LaunchFlash(kernel_, grid, 128 * (tiling_.groups + 1),
                       tiling_.shared_bytes, &params_, stream);
  }

 private:
  // Sets the addresses of a launch.
  absl::Status Point(const KernelArgs& args) {
    AttentionData data = operands_.DataOf(args);
    params_.y = args.results[0];
    params_.log_sums = has_log_sums_ ? args.results[1] : nullptr;
    params_.mask = data.mask;
    params_.lengths = data.lengths;
    params_.sinks = data.sinks;
    params_.tiles = args.workspace;
    const AttentionProblem& p = problem_;
    auto heads = [&](const void* of, int64_t rows, int64_t count, int64_t width,
                     int box) {
      return HeadsMap{of, design_.bf16, p.b, rows, count, width, box};
    };
    if (data.q == q_ && data.k == k_ && data.v == v_) return absl::OkStatus();
    ASYRA_RETURN_IF_ERROR(
        Encode(heads(data.q, p.s, p.h, p.d, tiling_.rows), &params_.q));
    ASYRA_RETURN_IF_ERROR(
        Encode(heads(data.k, p.t, p.g, p.d, tiling_.keys), &params_.k));
    ASYRA_RETURN_IF_ERROR(
        Encode(heads(data.v, p.t, p.g, p.e, tiling_.keys), &params_.v));
    q_ = data.q;
    k_ = data.k;
    v_ = data.v;
    return absl::OkStatus();
  }

  const AttentionProblem problem_;
  const AttentionOperands operands_;
  const bool has_log_sums_;
  FlashDesign design_;
  const FlashTiling tiling_;
  FlashParams params_;
  cudaKernel_t kernel_ = nullptr, tiles_ = nullptr;
  const void *q_ = nullptr, *k_ = nullptr, *v_ = nullptr;  // of the maps
};

class FlashAttentionGrad : public CudaKernel {
 public:
  FlashAttentionGrad(const AttentionProblem& problem,
                     const AttentionOperands& operands)
      : problem_(problem),
        operands_(operands),
        design_(DesignOf(problem, operands)),
        tiling_(BackwardTiling(design_)) {
    AddTiles(problem_, tiling_, &design_);
    params_ = ParamsOf(problem_, design_);
    heads_ = problem.b * problem.h;
    row_tiles_ = (problem.s + tiling_.rows - 1) / tiling_.rows;
    int64_t rows = row_tiles_ * tiling_.rows;
    means_bytes_ = RoundUp(heads_ * rows * 8, kWorkspaceAlignment);
    int64_t columns = tiling_.groups * DqColumns(design_, tiling_.groups);
    dq_bytes_ = RoundUp(heads_ * rows * columns * 4, kWorkspaceAlignment);
  }

  absl::Status Prepare() {
    if (tiling_.shared_bytes > kMostShared) {
      return Unimplemented("gradients of heads of {} and {}", problem_.d,
                           problem_.e);
    }
    std::string text = FlashBackwardText(design_);
    ASYRA_ASSIGN_OR_RETURN(rows_, CompileFlash(text, "flash_rows", 0));
    ASYRA_ASSIGN_OR_RETURN(
        kernel_, CompileFlash(text, "flash_backward", tiling_.shared_bytes));
    ASYRA_ASSIGN_OR_RETURN(dq_, CompileFlash(text, "flash_dq", 0));
    if (design_.tiles[0] == 0) return absl::OkStatus();
    ASYRA_ASSIGN_OR_RETURN(tiles_, CompileFlash(text, "flash_tiles", 0));
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override {
    return dq_bytes_ + means_bytes_ + TileCount(design_);
  }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    ASYRA_RETURN_IF_ERROR(Point(args));
    const AttentionProblem& p = problem_;
    auto launch = [&](cudaKernel_t kernel, dim3 grid, int threads,
                      int64_t shared = 0) {
      return LaunchFlash(kernel, grid, threads, shared, &params_, stream);
    };
    auto blocks = [](int64_t count) {
      return dim3(static_cast<unsigned>(count));
    };
    if (tiles_ != nullptr) {
      ASYRA_RETURN_IF_ERROR(launch(tiles_, blocks(TileCount(design_)), 128));
    }
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
  absl::Status Point(const KernelArgs& args) {
    AttentionData data = operands_.DataOf(args);
    params_.y = args.operands[kGradY];
    params_.dy_data = args.operands[kGradDy];
    params_.log_sums_in = args.operands[kGradLogSums];
    params_.mask = data.mask;
    params_.lengths = data.lengths;
    auto* workspace = static_cast<std::byte*>(args.workspace);
    params_.dq = workspace;
    params_.means = workspace + dq_bytes_;
    params_.tiles = workspace + dq_bytes_ + means_bytes_;
    params_.dq_out = args.results[0];
    params_.dk = args.results[1];
    params_.dv = args.results[2];
    const AttentionProblem& p = problem_;
    auto encode = [&](const void* of, int64_t rows, int64_t heads,
                      int64_t width, int box, TensorMap* map) {
      return Encode({of, design_.bf16, p.b, rows, heads, width, box}, map);
    };
    ASYRA_RETURN_IF_ERROR(
        encode(data.q, p.s, p.h, p.d, tiling_.rows, &params_.q));
    ASYRA_RETURN_IF_ERROR(
        encode(data.k, p.t, p.g, p.d, tiling_.keys, &params_.k));
    ASYRA_RETURN_IF_ERROR(
        encode(data.v, p.t, p.g, p.e, tiling_.keys, &params_.v));
    return encode(params_.dy_data, p.s, p.h, p.e, tiling_.rows, &params_.dy);
  }

  const AttentionProblem problem_;
  const AttentionOperands operands_;
  FlashDesign design_;
  const FlashTiling tiling_;
  FlashParams params_;
  int64_t heads_ = 0, row_tiles_ = 0, means_bytes_ = 0, dq_bytes_ = 0;
  cudaKernel_t rows_ = nullptr, kernel_ = nullptr, dq_ = nullptr,
               tiles_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareFlashAttentionGrad(
    const AttentionProblem& problem, const AttentionOperands& operands) {
  ASYRA_RETURN_IF_ERROR(CheckFlashTakes(problem));
  auto kernel = std::make_unique<FlashAttentionGrad>(problem, operands);
  ASYRA_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

absl::StatusOr<std::unique_ptr<CudaKernel>> PrepareFlashAttention(
    const AttentionProblem& problem, const AttentionOperands& operands,
    bool log_sums) {
  ASYRA_RETURN_IF_ERROR(CheckFlashTakes(problem));
  auto kernel = std::make_unique<FlashAttention>(problem, operands, log_sums);
  ASYRA_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

}  // namespace asyra::cuda
