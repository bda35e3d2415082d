#include "executor/cuda/gemm/gemm_epilogue.h"

#include "executor/device.h"
#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

cublasLtEpilogue_t KindOf(const GemmEpilogue& epilogue) {
  bool bias = epilogue.bias;
  switch (epilogue.activation) {
    case Epilogue::kRelu:
      return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Epilogue::kGeluTanh:
      return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case Epilogue::kNone:
      break;
  }
  return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

}  // namespace

absl::Status SetEpilogue(const GemmEpilogue& epilogue, cudaDataType_t type,
                         cublasLtMatmulDesc_t operation) {
  cublasLtEpilogue_t kind = KindOf(epilogue);
  if (kind == CUBLASLT_EPILOGUE_DEFAULT) return absl::OkStatus();
  ASYRA_CUDA(cublasLtMatmulDescSetAttribute(
      operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &kind, sizeof(kind)));
  if (!epilogue.bias) return absl::OkStatus();
  ASYRA_CUDA(cublasLtMatmulDescSetAttribute(
      operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof(type)));
  // The heuristics do not read this memory but assume its alignment.
  return SetBias(reinterpret_cast<const void*>(uintptr_t{kDeviceAlignment}),
                 operation);
}

absl::Status SetBias(const void* bias, cublasLtMatmulDesc_t operation) {
  ASYRA_CUDA(cublasLtMatmulDescSetAttribute(
      operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)));
  return absl::OkStatus();
}

}  // namespace asyra::cuda
