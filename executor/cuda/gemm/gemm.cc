#include "executor/cuda/gemm/gemm.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/algorithm/container.h"
#include "executor/cuda/device/element_of.h"
#include "executor/cuda/device/fill.h"
#include "executor/cuda/device/gpu_tuning.h"
#include "executor/cuda/device/per_gpu.h"
#include "executor/cuda/device/scratch.h"
#include "executor/cuda/device/timed_runs.h"
#include "executor/cuda/gemm/few_rows.h"
#include "executor/cuda/gemm/gemm_algorithm.h"
#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

// Candidates of the heuristics that are timed.
constexpr int kCandidates = 8;
// A matmul that takes so long on an idle GPU is chosen by its time under load,
// of so many candidates that the heuristics expect to be best, and the fastest
// of all on an idle GPU. Each is timed in so many rounds.
constexpr double kLongMs = 0.1;
constexpr size_t kTimedUnderLoad = 4;
constexpr int kRoundsUnderLoad = 2;

cudaDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF64:
      return CUDA_R_64F;
    default:
      return CUDA_R_32F;
  }
}

// A handle of cuBLASLt with its function that destroys it.
template <typename T, cublasStatus_t (*kDestroy)(T)>
struct Handle {
  T value = nullptr;
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (value != nullptr) kDestroy(value);
  }
};
using Operation = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference =
    Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

absl::StatusOr<cublasLtHandle_t> HandleOfGpu() {
  static auto* handles = new PerGpu<cublasLtHandle_t>();
  ASYRA_ASSIGN_OR_RETURN(cublasLtHandle_t * handle,
                         handles->Get([](cublasLtHandle_t* made) {
                           ASYRA_CUDA(cublasLtCreate(made));
                           return absl::OkStatus();
                         }));
  return *handle;
}

class LtGemm : public Gemm {
 public:
  explicit LtGemm(const GemmShape& shape) : shape_(shape) {}

  absl::Status Describe() {
    ASYRA_ASSIGN_OR_RETURN(handle_, HandleOfGpu());
    bool wide = shape_.dtype == DType::kF64;
    ASYRA_CUDA(cublasLtMatmulDescCreate(
        &operation_.value, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
        wide ? CUDA_R_64F : CUDA_R_32F));
    // cuBLAS counts in columns: it computes c transposed, from b and a.
    ASYRA_RETURN_IF_ERROR(
        SetTranspose(CUBLASLT_MATMUL_DESC_TRANSA, shape_.transpose_b));
    ASYRA_RETURN_IF_ERROR(
        SetTranspose(CUBLASLT_MATMUL_DESC_TRANSB, shape_.transpose_a));
    ASYRA_RETURN_IF_ERROR(SetSmCount());
    const GemmShape& s = shape_;
    ASYRA_RETURN_IF_ERROR(MakeLayout(s.dtype, s.b_rows(), s.b_columns(),
                                     s.b_row_stride, s.b_stride, &b_));
    ASYRA_RETURN_IF_ERROR(MakeLayout(s.dtype, s.a_rows(), s.a_columns(),
                                     s.a_row_stride, s.a_stride, &a_));
    ASYRA_RETURN_IF_ERROR(MakeLayout(s.result(), s.m, s.n, 0, s.c_stride, &c_));
    return SetEpilogue(shape_.epilogue, TypeOf(shape_.dtype), operation_.value);
  }

  // Returns at least one algorithm, what the heuristics expect to be the best
  // one first.
  absl::StatusOr<std::vector<GemmAlgorithm>> Candidates() {
    Preference preference;
    ASYRA_CUDA(cublasLtMatmulPreferenceCreate(&preference.value));
    uint64_t bytes = kGemmWorkspaceBytes;
    ASYRA_CUDA(cublasLtMatmulPreferenceSetAttribute(
        preference.value, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
        sizeof(bytes)));
    // The default assumes the alignment of new allocations, 256.
    for (auto matrix : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      uint32_t alignment = AlignmentOf(shape_);
      ASYRA_CUDA(cublasLtMatmulPreferenceSetAttribute(
          preference.value, matrix, &alignment, sizeof(alignment)));
    }
    std::vector<cublasLtMatmulHeuristicResult_t> found(kCandidates);
    int count = 0;
    cublasStatus_t asked = cublasLtMatmulAlgoGetHeuristic(
        handle_, operation_.value, b_.value, a_.value, c_.value, c_.value,
        preference.value, kCandidates, found.data(), &count);
    // cuBLASLt's answer if it has no algorithm for an epilogue.
    if (asked == CUBLAS_STATUS_NOT_SUPPORTED) {
      count = 0;
    } else {
      ASYRA_RETURN_IF_ERROR(ToStatus(asked, "cublasLtMatmulAlgoGetHeuristic"));
    }
    found.resize(count);
    std::vector<GemmAlgorithm> algorithms;
    for (const cublasLtMatmulHeuristicResult_t& one : found) {
      if (one.state != CUBLAS_STATUS_SUCCESS) continue;
      algorithms.push_back({one.algo, one.workspaceSize});
    }
    if (!algorithms.empty()) return algorithms;
    return Unimplemented("cuBLASLt has no algorithm for {} x {} x {} in {}",
                         shape_.m, shape_.n, shape_.k, ToString(shape_.dtype));
  }

  // Returns whether an algorithm from another process runs this matmul on this
  // device.
  bool Takes(const GemmAlgorithm& algorithm) {
    if (algorithm.workspace_bytes > kGemmWorkspaceBytes) return false;
    cublasLtMatmulHeuristicResult_t checked = {};
    cublasStatus_t status =
        cublasLtMatmulAlgoCheck(handle_, operation_.value, b_.value, a_.value,
                                c_.value, c_.value, &algorithm.algo, &checked);
    return status == CUBLAS_STATUS_SUCCESS &&
           checked.state == CUBLAS_STATUS_SUCCESS &&
           checked.workspaceSize <= algorithm.workspace_bytes;
  }

  void Use(const GemmAlgorithm& algorithm) { algorithm_ = algorithm; }

  int64_t workspace_bytes() const override {
    return static_cast<int64_t>(algorithm_.workspace_bytes);
  }

  absl::Status Enqueue(const void* a, const void* b, void* c,
                       const EpilogueData& data, void* workspace,
                       cudaStream_t stream) override {
    const float one = 1, beta = shape_.epilogue.residual ? 1 : 0;
    const double one64 = 1, beta64 = beta;
    bool wide = shape_.dtype == DType::kF64;
    const void* residual = shape_.epilogue.residual ? data.residual : c;
    if (shape_.epilogue.bias) {
      ASYRA_RETURN_IF_ERROR(SetBias(data.bias, operation_.value));
    }
    return ToStatus(
        cublasLtMatmul(handle_, operation_.value,
                       wide ? static_cast<const void*>(&one64) : &one, b,
                       b_.value, a, a_.value,
                       wide ? static_cast<const void*>(&beta64) : &beta,
                       residual, c_.value, c, c_.value, &algorithm_.algo,
                       workspace, algorithm_.workspace_bytes, stream),
        "cublasLtMatmul");
  }

 private:
  absl::Status SetTranspose(cublasLtMatmulDescAttributes_t which, bool is) {
    cublasOperation_t operation = is ? CUBLAS_OP_T : CUBLAS_OP_N;
    return ToStatus(cublasLtMatmulDescSetAttribute(
                        operation_.value, which, &operation, sizeof(operation)),
                    "cublasLtMatmulDescSetAttribute");
  }

  absl::Status SetSmCount() {
    if (shape_.sms == 0) return absl::OkStatus();
    int32_t count = shape_.sms;
    return ToStatus(cublasLtMatmulDescSetAttribute(
                        operation_.value, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
                        &count, sizeof(count)),
                    "cublasLtMatmulDescSetAttribute");
  }

  // Makes the layout of stored rows, which are cuBLAS' columns; 0 elements
  // between them: dense.
  absl::Status MakeLayout(DType dtype, int64_t rows, int64_t columns,
                          int64_t row_stride, int64_t stride, Layout* layout) {
    ASYRA_CUDA(
        cublasLtMatrixLayoutCreate(&layout->value, TypeOf(dtype), columns, rows,
                                   row_stride > 0 ? row_stride : columns));
    if (shape_.batch == 1) return absl::OkStatus();
    if (shape_.batch > INT32_MAX) {
      return Unimplemented("a batch of {} matmuls, cuBLAS counts up to {}",
                           shape_.batch, INT32_MAX);
    }
    auto batch = static_cast<int32_t>(shape_.batch);
    ASYRA_CUDA(cublasLtMatrixLayoutSetAttribute(
        layout->value, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
        sizeof(batch)));
    ASYRA_CUDA(cublasLtMatrixLayoutSetAttribute(
        layout->value, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
        sizeof(stride)));
    return absl::OkStatus();
  }

  GemmShape shape_;
  cublasLtHandle_t handle_ = nullptr;
  Operation operation_;
  Layout a_, b_, c_;
  GemmAlgorithm algorithm_;
};

// Matrices to time a matmul on.
class Trial {
 public:
  absl::Status Prepare(const GemmShape& s) {
    ASYRA_RETURN_IF_ERROR(runs_.Prepare());
    int64_t last = s.batch - 1;
    int64_t a = s.a_rows() * std::max(s.a_row_stride, s.a_columns());
    int64_t b = s.b_rows() * std::max(s.b_row_stride, s.b_columns());
    ASYRA_RETURN_IF_ERROR(Make(s.dtype, last * s.a_stride + a, &a_));
    ASYRA_RETURN_IF_ERROR(Make(s.dtype, last * s.b_stride + b, &b_));
    ASYRA_RETURN_IF_ERROR(Make(s.result(), last * s.c_stride + s.m * s.n, &c_));
    if (s.epilogue.residual) {
      ASYRA_RETURN_IF_ERROR(
          Make(s.result(), last * s.c_stride + s.m * s.n, &residual_));
    }
    if (s.epilogue.bias) ASYRA_RETURN_IF_ERROR(Make(s.dtype, s.n, &bias_));
    return workspace_.Allocate(kGemmWorkspaceBytes);
  }

  absl::StatusOr<double> TimeMs(Gemm& gemm) const {
    return runs_.MedianMs([&] { return Enqueue(gemm); });
  }
  absl::StatusOr<double> UnderLoadMs(double run_ms, Gemm& gemm) const {
    return runs_.UnderLoadMs(run_ms, [&] { return Enqueue(gemm); });
  }
  absl::Status RunOnce(Gemm& gemm) const {
    return runs_.Once([&] { return Enqueue(gemm); });
  }

 private:
  absl::Status Enqueue(Gemm& gemm) const {
    return gemm.Enqueue(a_.data(), b_.data(), c_.data(),
                        {residual_.data(), bias_.data()}, workspace_.data(),
                        runs_.stream());
  }

  absl::Status Make(DType dtype, int64_t elements, Scratch* scratch) {
    ASYRA_RETURN_IF_ERROR(scratch->Allocate(elements * SizeOf(dtype)));
    ASYRA_CUDA(FillRandom(ElementOf(dtype), scratch->data(), elements, ++seed_,
                          runs_.stream()));
    return absl::OkStatus();
  }

  TimedRuns runs_;
  uint64_t seed_ = 0;
  Scratch a_, b_, c_, residual_, bias_, workspace_;
};

// The fastest of some algorithms.
struct Fastest {
  size_t index = 0;
  double ms = 0;
};

Fastest FastestOf(const std::vector<double>& ms) {
  auto least = absl::c_min_element(ms);
  return {static_cast<size_t>(least - ms.begin()), *least};
}

// The fastest on a GPU that is idle before each run.
absl::StatusOr<Fastest> FastestAlone(const std::vector<GemmAlgorithm>& found,
                                     const Trial& trial, LtGemm& gemm) {
  std::vector<double> ms;
  for (const GemmAlgorithm& candidate : found) {
    gemm.Use(candidate);
    ASYRA_ASSIGN_OR_RETURN(ms.emplace_back(), trial.TimeMs(gemm));
  }
  return FastestOf(ms);
}

// The fastest under load; `alone` is what the other function found.
absl::StatusOr<Fastest> FastestUnderLoad(
    const std::vector<GemmAlgorithm>& found, const Fastest& alone,
    const Trial& trial, LtGemm& gemm) {
  std::vector<size_t> tried(std::min(found.size(), kTimedUnderLoad));
  absl::c_iota(tried, 0);
  if (alone.index >= tried.size()) tried.push_back(alone.index);
  std::vector<double> ms(tried.size());
  for (int round = 0; round < kRoundsUnderLoad; ++round) {
    for (size_t i = 0; i < tried.size(); ++i) {
      gemm.Use(found[tried[i]]);
      ASYRA_ASSIGN_OR_RETURN(double one, trial.UnderLoadMs(alone.ms, gemm));
      ms[i] += one / kRoundsUnderLoad;
    }
  }
  Fastest fastest = FastestOf(ms);
  return Fastest{tried[fastest.index], fastest.ms};
}

// Puts the fastest of our kernels in place of the library's algorithm where it
// is faster.
absl::Status TryFewRows(const GemmShape& shape, const Trial& trial,
                        TuningResult* best) {
  for (const FewRowsDesign& design : FewRowsDesigns(shape)) {
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> gemm,
                           CreateFewRows(shape, design));
    ASYRA_ASSIGN_OR_RETURN(double ms, trial.TimeMs(*gemm));
    if (ms * 1e3 < best->us) *best = TuningResult{ToText(design), ms * 1e3};
  }
  return absl::OkStatus();
}

// The fastest of the candidates; the first one if there is no memory to time
// them.
absl::StatusOr<TuningResult> Tune(const GemmShape& shape, LtGemm& gemm) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<GemmAlgorithm> found, gemm.Candidates());
  Trial trial;
  absl::Status ready = trial.Prepare(shape);
  if (absl::IsResourceExhausted(ready)) return TuningResult{ToText(found[0])};
  ASYRA_RETURN_IF_ERROR(ready);
  ASYRA_ASSIGN_OR_RETURN(Fastest best, FastestAlone(found, trial, gemm));
  TuningResult result = {ToText(found[best.index]), best.ms * 1e3};
  ASYRA_RETURN_IF_ERROR(TryFewRows(shape, trial, &result));
  if (ParseFewRows(result.value).has_value()) return result;
  if (best.ms >= kLongMs && found.size() > 1) {
    ASYRA_ASSIGN_OR_RETURN(best, FastestUnderLoad(found, best, trial, gemm));
  }
  return TuningResult{ToText(found[best.index]), best.ms * 1e3};
}

// Runs an algorithm once on each GPU that will use it. cuBLASLt loads a kernel
// when it is first launched, which waits for all that has been enqueued: in a
// step, where streams wait for other ranks, it could wait forever. Another
// process, or the rank of another GPU, may have measured it, so that it has
// never run on this one. Without memory for that it stays as it is.
absl::Status LoadKernel(const GemmShape& shape, const std::string& key,
                        const TuningResult& result, Gemm& gemm) {
  static std::mutex mutex;
  static auto* loaded =
      new std::set<std::tuple<int, std::string, std::string>>();
  int gpu = 0;
  ASYRA_CUDA(cudaGetDevice(&gpu));
  {
    std::lock_guard lock(mutex);
    if (!loaded->emplace(gpu, key, result.value).second) {
      return absl::OkStatus();
    }
  }
  Trial trial;
  absl::Status ready = trial.Prepare(shape);
  if (absl::IsResourceExhausted(ready)) return absl::OkStatus();
  ASYRA_RETURN_IF_ERROR(ready);
  return trial.RunOnce(gemm);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create(const GemmShape& shape) {
  auto library = std::make_unique<LtGemm>(shape);
  ASYRA_RETURN_IF_ERROR(library->Describe());
  ASYRA_ASSIGN_OR_RETURN(std::string gpu, GpuModel());
  std::string key = KeyOf(shape, gpu);
  auto serves = [&](const TuningResult& result) {
    if (ParseFewRows(result.value).has_value()) {
      return !FewRowsDesigns(shape).empty();
    }
    std::optional<GemmAlgorithm> algorithm = ParseGemmAlgorithm(result.value);
    return algorithm.has_value() && library->Takes(*algorithm);
  };
  ASYRA_ASSIGN_OR_RETURN(
      TuningResult result,
      GpuTuningCache().Get(key, serves, [&] { return Tune(shape, *library); }));
  std::unique_ptr<Gemm> gemm;
  if (std::optional<FewRowsDesign> design = ParseFewRows(result.value)) {
    ASYRA_ASSIGN_OR_RETURN(gemm, CreateFewRows(shape, *design));
  } else {
    library->Use(*ParseGemmAlgorithm(result.value));
    gemm = std::move(library);
  }
  ASYRA_RETURN_IF_ERROR(LoadKernel(shape, key, result, *gemm));
  gemm->key_ = std::move(key);
  gemm->tuned_ = result;
  return gemm;
}

}  // namespace asyra::cuda
