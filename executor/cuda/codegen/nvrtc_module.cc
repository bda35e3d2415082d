#include "executor/cuda/codegen/nvrtc_module.h"

#include <nvrtc.h>

#include <mutex>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "executor/cuda/device/cuda_status.h"
#include "executor/tuning/disk_cache.h"
#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

constexpr char kKind[] = "cubin";  // of files

absl::Status ToStatus(nvrtcResult result, std::string_view call) {
  if (result == NVRTC_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("{}: {}", call, nvrtcGetErrorString(result)));
}

#define ASYRA_NVRTC(call) ASYRA_RETURN_IF_ERROR(ToStatus(call, #call))

class NvrtcProgram {
 public:
  ~NvrtcProgram() {
    if (program_ != nullptr) nvrtcDestroyProgram(&program_);
  }
  absl::Status Compile(const std::string& source,
                       const std::vector<std::string>& options) {
    ASYRA_NVRTC(nvrtcCreateProgram(&program_, source.c_str(), "generated.cu", 0,
                                   nullptr, nullptr));
    std::vector<const char*> texts;
    for (const std::string& option : options) texts.push_back(option.c_str());
    nvrtcResult result = nvrtcCompileProgram(
        program_, static_cast<int>(texts.size()), texts.data());
    if (result == NVRTC_SUCCESS) return absl::OkStatus();
    return absl::InternalError(fmt::format(
        "NVRTC: {}: {}\n{}", nvrtcGetErrorString(result), Log(), source));
  }
  absl::StatusOr<std::string> Cubin() {
    size_t size = 0;
    ASYRA_NVRTC(nvrtcGetCUBINSize(program_, &size));
    std::string cubin(size, '\0');
    ASYRA_NVRTC(nvrtcGetCUBIN(program_, cubin.data()));
    return cubin;
  }

 private:
  std::string Log() {
    size_t size = 0;
    if (nvrtcGetProgramLogSize(program_, &size) != NVRTC_SUCCESS) return "";
    std::string log(size, '\0');
    if (nvrtcGetProgramLog(program_, log.data()) != NVRTC_SUCCESS) return "";
    return log;
  }
  nvrtcProgram program_ = nullptr;
};

std::vector<std::string> OptionsFor(const NvrtcOptions& options) {
  std::vector<std::string> texts = {
      fmt::format("-arch=sm_{}{}", options.architecture,
                  options.own_features ? "a" : ""),
      "-default-device", "-std=c++17"};
  if (options.approximate_division) {
    texts.insert(texts.end(), {"-prec-div=false", "-prec-sqrt=false"});
  }
  return texts;
}

// All inputs of the compilation, as one text.
std::string KeyOf(const std::string& source,
                  const std::vector<std::string>& options) {
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  std::string key = fmt::format("nvrtc {}.{}", major, minor);
  for (const std::string& option : options) key += " " + option;
  return key + "\n" + source;
}

// Ranks that prepare the same kernels at the same time compile them once.
class Kernels {
 public:
  absl::StatusOr<cudaKernel_t> Get(const std::string& source,
                                   const std::string& name,
                                   const NvrtcOptions& options) {
    std::lock_guard lock(mutex_);
    std::string key = KeyOf(source, OptionsFor(options)) + name;
    auto found = kernels_.find(key);
    if (found != kernels_.end()) return found->second;
    ASYRA_ASSIGN_OR_RETURN(std::string cubin, CompileToCubin(source, options));
    cudaLibrary_t library = nullptr;  // stays loaded
    ASYRA_CUDA(cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0,
                                   nullptr, nullptr, 0));
    cudaKernel_t kernel = nullptr;
    ASYRA_CUDA(cudaLibraryGetKernel(&kernel, library, name.c_str()));
    kernels_[key] = kernel;
    return kernel;
  }

 private:
  std::mutex mutex_;
  absl::flat_hash_map<std::string, cudaKernel_t> kernels_;
};

}  // namespace

absl::StatusOr<int> ArchitectureOfGpu() {
  int gpu = 0, major = 0, minor = 0;
  ASYRA_CUDA(cudaGetDevice(&gpu));
  ASYRA_CUDA(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu));
  ASYRA_CUDA(
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu));
  return 10 * major + minor;
}

absl::StatusOr<std::string> CompileToCubin(const std::string& source,
                                           const NvrtcOptions& options) {
  std::vector<std::string> texts = OptionsFor(options);
  std::string key = KeyOf(source, texts);
  std::optional<std::string> kept = DiskCache::OfProcess().Find(kKind, key);
  if (kept.has_value()) return *std::move(kept);
  NvrtcProgram program;
  ASYRA_RETURN_IF_ERROR(program.Compile(source, texts));
  ASYRA_ASSIGN_OR_RETURN(std::string cubin, program.Cubin());
  DiskCache::OfProcess().Keep(kKind, key, cubin);
  return cubin;
}

absl::StatusOr<cudaKernel_t> CompileKernel(const std::string& source,
                                           const std::string& name,
                                           const NvrtcOptions& options) {
  static auto* const kernels = new Kernels;
  NvrtcOptions here = options;
  ASYRA_ASSIGN_OR_RETURN(here.architecture, ArchitectureOfGpu());
  ASYRA_ASSIGN_OR_RETURN(cudaKernel_t kernel, kernels->Get(source, name, here));
  cudaFuncAttributes attributes;  // asking for them loads it on this GPU
  ASYRA_CUDA(cudaFuncGetAttributes(&attributes,
                                   reinterpret_cast<const void*>(kernel)));
  return kernel;
}

}  // namespace asyra::cuda
