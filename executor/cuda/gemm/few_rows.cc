#include "executor/cuda/gemm/few_rows.h"

#include <algorithm>
#include <limits>

#include "executor/cuda/codegen/nvrtc_module.h"
#include "executor/cuda/device/cuda_status.h"
#include "executor/cuda/device/element_of.h"
#include "executor/cuda/device/sm_partition.h"
#include "executor/cuda/hopper/device_texts.h"
#include "fmt/format.h"
#include "ir/gpu/vector_bytes.h"
#include "ir/support/round_up.h"

namespace asyra::cuda {
namespace {

constexpr std::string_view kName = "few rows";
constexpr int64_t kMostRows = 64;
// Less is read in the time of a launch; more cuBLASLt reads as fast.
constexpr int64_t kLeastBytes = int64_t{1} << 20;
constexpr int64_t kMostBytes = int64_t{64} << 20;
constexpr int kTileRows = 8, kTileColumns = 16;  // of x and of y
constexpr int64_t kMostShared = 224 << 10;       // bytes of an SM's blocks
// Steps of a warp on their way.
constexpr int kLeastStages = 3, kMostStages = 8;

// The arguments of few_rows.cuh.
struct FewRowsParams {
  const void *x, *w, *residual, *bias;
  void* y;
  long long x_stride, w_stride;
  int m, n, k, columns;
};

// Sizes that the text of a kernel has.
struct FewRowsTiling {
  int row_tiles = 1, column_tiles = 1, stages = 1;
  int columns = 0, blocks = 0;
  int64_t shared_bytes = 0;
};

// Bytes of the sums of all warps of a block.
int64_t SumBytes(const FewRowsDesign& design, const FewRowsTiling& tiling) {
  int64_t width = kTileColumns * tiling.column_tiles + 1;
  return 4 * width * kTileRows * tiling.row_tiles * design.warps;
}

// Bytes of a step of all warps of a block on its way.
int64_t StepBytes(const FewRowsDesign& design, const FewRowsTiling& tiling) {
  int64_t pieces = 2 * tiling.column_tiles + tiling.row_tiles;
  return 32 * 16 * pieces * design.warps;
}

bool Fits(const FewRowsDesign& design, const FewRowsTiling& tiling) {
  int64_t room = kMostShared / design.blocks;
  // Registers of a thread: addresses and operands of products need some.
  int registers = std::min(65536 / (32 * design.warps * design.blocks), 255);
  int sums = 4 * tiling.row_tiles * tiling.column_tiles;
  return SumBytes(design, tiling) <= room &&
         kLeastStages * StepBytes(design, tiling) <= room &&
         sums + 4 * tiling.row_tiles + 60 <= registers;
}

FewRowsTiling TilingOf(const GemmShape& s, const FewRowsDesign& design,
                       int sms) {
  FewRowsTiling tiling;
  tiling.row_tiles = static_cast<int>(DivideUp(s.m, kTileRows));
  int64_t blocks = int64_t{design.blocks} * sms;
  tiling.columns = static_cast<int>(RoundUp(DivideUp(s.n, blocks), 8));
  tiling.blocks = static_cast<int>(DivideUp(s.n, tiling.columns));
  // The fewest passes over the columns of a block, of equal width.
  int64_t tiles = DivideUp(tiling.columns, kTileColumns);
  for (int64_t passes = 1; passes <= tiles; ++passes) {
    tiling.column_tiles = static_cast<int>(DivideUp(tiles, passes));
    if (Fits(design, tiling)) break;
  }
  int64_t step = StepBytes(design, tiling);
  tiling.stages = static_cast<int>(
      std::min<int64_t>(kMostStages, kMostShared / design.blocks / step));
  tiling.shared_bytes =
      std::max(SumBytes(design, tiling), tiling.stages * step);
  return tiling;
}

int NumberOf(Epilogue::Activation activation) {
  switch (activation) {
    case Epilogue::kRelu:
      return 1;
    case Epilogue::kGeluTanh:
      return 2;
    case Epilogue::kNone:
      break;
  }
  return 0;
}

std::string TextOf(const GemmShape& s, const FewRowsDesign& design,
                   const FewRowsTiling& tiling) {
  std::string text;
  auto define = [&](std::string_view name, int value) {
    fmt::format_to(std::back_inserter(text), "#define {} {}\n", name, value);
  };
  define("BF16", s.dtype == DType::kBF16 ? 1 : 0);
  define("TYPE", static_cast<int>(ElementOf(s.dtype)));
  define("RESULT_TYPE", static_cast<int>(ElementOf(s.result())));
  define("F32_RESULT", s.f32_result ? 1 : 0);
  define("RESIDUAL", s.epilogue.residual ? 1 : 0);
  define("BIAS", s.epilogue.bias ? 1 : 0);
  define("ACTIVATION", NumberOf(s.epilogue.activation));
  define("MT", tiling.row_tiles);
  define("TILES", tiling.column_tiles);
  define("STAGES", tiling.stages);
  define("WARPS", design.warps);
  define("BLOCKS", design.blocks);
  define("kF32", static_cast<int>(Element::kF32));
  define("kBF16", static_cast<int>(Element::kBF16));
  text += kNumbers;
  text += kFewRows;
  return text;
}

class FewRowsGemm : public Gemm {
 public:
  FewRowsGemm(const GemmShape& shape, const FewRowsDesign& design, int sms)
      : design_(design), tiling_(TilingOf(shape, design, sms)) {
    auto stride = [](int64_t given, int64_t dense) {
      return given > 0 ? given : dense;
    };
    params_.x_stride = stride(shape.a_row_stride, shape.a_columns());
    params_.w_stride = stride(shape.b_row_stride, shape.b_columns());
    params_.m = static_cast<int>(shape.m);
    params_.n = static_cast<int>(shape.n);
    params_.k = static_cast<int>(shape.k);
    params_.columns = tiling_.columns;
  }

  absl::Status Prepare(const GemmShape& shape) {
    ASYRA_ASSIGN_OR_RETURN(
        kernel_,
        CompileKernel(TextOf(shape, design_, tiling_), "few_rows", {}));
    ASYRA_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel_),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(tiling_.shared_bytes)));
    return absl::OkStatus();
  }

  int64_t workspace_bytes() const override { return 0; }

  absl::Status Enqueue(const void* a, const void* b, void* c,
                       const EpilogueData& data, void*,
                       cudaStream_t stream) override {
    params_.x = a;
    params_.w = b;
    params_.y = c;
    params_.residual = data.residual;
    params_.bias = data.bias;
    void* given[] = {&params_};
    ASYRA_CUDA(
        cudaLaunchKernel(reinterpret_cast<const void*>(kernel_),
                         dim3(static_cast<unsigned>(tiling_.blocks)),
                         dim3(static_cast<unsigned>(32 * design_.warps)), given,
                         static_cast<size_t>(tiling_.shared_bytes), stream));
    return absl::OkStatus();
  }

 private:
  const FewRowsDesign design_;
  const FewRowsTiling tiling_;
  FewRowsParams params_ = {};
  cudaKernel_t kernel_ = nullptr;
};

}  // namespace

std::string ToText(const FewRowsDesign& design) {
  return fmt::format("{} {} {}", kName, design.warps, design.blocks);
}

std::optional<FewRowsDesign> ParseFewRows(std::string_view text) {
  for (int warps : {8, 16}) {
    for (int blocks : {1, 2}) {
      FewRowsDesign design = {warps, blocks};
      if (text == ToText(design)) return design;
    }
  }
  return std::nullopt;
}

std::vector<FewRowsDesign> FewRowsDesigns(const GemmShape& s) {
  bool takes = (s.dtype == DType::kBF16 || s.dtype == DType::kF16) &&
               s.batch == 1 && !s.transpose_a && s.transpose_b && s.m >= 1 &&
               s.m <= kMostRows;
  int64_t bytes = s.n * s.k * SizeOf(s.dtype);
  takes = takes && bytes >= kLeastBytes && bytes <= kMostBytes;
  for (int64_t columns :
       {s.a_columns(), s.a_row_stride, s.b_columns(), s.b_row_stride}) {
    takes = takes && columns * SizeOf(s.dtype) % kGpuVectorBytes == 0;
  }
  for (int64_t size : {s.n, s.k}) {
    takes = takes && size <= std::numeric_limits<int32_t>::max() / 2;
  }
  std::vector<FewRowsDesign> designs;
  for (FewRowsDesign design : {FewRowsDesign{8, 1}, {8, 2}, {16, 1}}) {
    FewRowsTiling least;
    least.row_tiles = static_cast<int>(DivideUp(s.m, kTileRows));
    if (takes && Fits(design, least)) designs.push_back(design);
  }
  return designs;
}

absl::StatusOr<std::unique_ptr<Gemm>> CreateFewRows(
    const GemmShape& shape, const FewRowsDesign& design) {
  ASYRA_ASSIGN_OR_RETURN(int sms, SmsWithin(0));
  if (shape.sms > 0) sms = std::min(sms, shape.sms);
  auto gemm = std::make_unique<FewRowsGemm>(shape, design, sms);
  ASYRA_RETURN_IF_ERROR(gemm->Prepare(shape));
  return gemm;
}

}  // namespace asyra::cuda
