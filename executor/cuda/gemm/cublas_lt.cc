// The functions of cuBLASLt that others call, which look for themselves in its
// library when they are first called. To load its 540 MB takes 0.06 s of
// computing, which programs should not spend that run on the cpu or print help.
//
// Where it cannot be loaded, calls fail, and cublasLtGetStatusString says why.
#include <cublasLt.h>
#include <dlfcn.h>

#include <string>

namespace {

#define ASYRA_TEXT_OF(value) #value
#define ASYRA_TEXT(value) ASYRA_TEXT_OF(value)
constexpr const char* kFile = "libcublasLt.so." ASYRA_TEXT(CUBLAS_VER_MAJOR);

struct Library {
  void* handle = nullptr;
  std::string error;  // of the loader, which names the file
};

// Stays until the process ends.
const Library& CublasLt() {
  static const auto* library = [] {
    auto* loaded = new Library{.handle = dlopen(kFile, RTLD_NOW | RTLD_LOCAL)};
    if (loaded->handle == nullptr) loaded->error = dlerror();
    return loaded;
  }();
  return *library;
}

// Null where there is no library.
template <typename Function>
Function Find(const char* name) {
  void* handle = CublasLt().handle;
  if (handle == nullptr) return nullptr;
  return reinterpret_cast<Function>(dlsym(handle, name));
}

}  // namespace

#define ASYRA_FORWARD(function, parameters, arguments)              \
  cublasStatus_t CUBLASWINAPI function parameters {                 \
    static const auto found = Find<decltype(&function)>(#function); \
    if (found == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;     \
    return found arguments;                                         \
  }

extern "C" {

const char* CUBLASWINAPI cublasLtGetStatusString(cublasStatus_t status) {
  static const auto found =
      Find<decltype(&cublasLtGetStatusString)>("cublasLtGetStatusString");
  return found == nullptr ? CublasLt().error.c_str() : found(status);
}

size_t CUBLASWINAPI cublasLtGetVersion() {
  static const auto found =
      Find<decltype(&cublasLtGetVersion)>("cublasLtGetVersion");
  return found == nullptr ? 0 : found();
}

ASYRA_FORWARD(cublasLtCreate, (cublasLtHandle_t * handle), (handle))
ASYRA_FORWARD(cublasLtMatmulDescCreate,
              (cublasLtMatmulDesc_t * operation, cublasComputeType_t compute,
               cudaDataType_t scale),
              (operation, compute, scale))
ASYRA_FORWARD(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t operation),
              (operation))
ASYRA_FORWARD(cublasLtMatmulDescSetAttribute,
              (cublasLtMatmulDesc_t operation,
               cublasLtMatmulDescAttributes_t which, const void* data,
               size_t bytes),
              (operation, which, data, bytes))
ASYRA_FORWARD(cublasLtMatrixLayoutCreate,
              (cublasLtMatrixLayout_t * layout, cudaDataType type,
               uint64_t rows, uint64_t columns, int64_t stride),
              (layout, type, rows, columns, stride))
ASYRA_FORWARD(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout),
              (layout))
ASYRA_FORWARD(cublasLtMatrixLayoutSetAttribute,
              (cublasLtMatrixLayout_t layout,
               cublasLtMatrixLayoutAttribute_t which, const void* data,
               size_t bytes),
              (layout, which, data, bytes))
ASYRA_FORWARD(cublasLtMatmulPreferenceCreate,
              (cublasLtMatmulPreference_t * preference), (preference))
ASYRA_FORWARD(cublasLtMatmulPreferenceDestroy,
              (cublasLtMatmulPreference_t preference), (preference))
ASYRA_FORWARD(cublasLtMatmulPreferenceSetAttribute,
              (cublasLtMatmulPreference_t preference,
               cublasLtMatmulPreferenceAttributes_t which, const void* data,
               size_t bytes),
              (preference, which, data, bytes))
ASYRA_FORWARD(cublasLtMatmulAlgoGetHeuristic,
              (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
               cublasLtMatmulPreference_t preference, int wanted,
               cublasLtMatmulHeuristicResult_t* results, int* count),
              (handle, operation, a, b, c, d, preference, wanted, results,
               count))
ASYRA_FORWARD(cublasLtMatmulAlgoCheck,
              (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
               const cublasLtMatmulAlgo_t* algorithm,
               cublasLtMatmulHeuristicResult_t* result),
              (handle, operation, a, b, c, d, algorithm, result))
ASYRA_FORWARD(
    cublasLtMatmul,
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
     const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
     cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
     cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
     const cublasLtMatmulAlgo_t* algorithm, void* workspace,
     size_t workspace_bytes, cudaStream_t stream),
    (handle, operation, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d,
     d_layout, algorithm, workspace, workspace_bytes, stream))

}  // extern "C"
