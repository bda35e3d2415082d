#include "executor/cuda/nvrtc_module.h"

#include <nvrtc.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "executor/cuda/cuda_status.h"
#include "ir/support/file.h"
#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

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
      fmt::format("-arch=sm_{}", options.architecture), "-default-device",
      "-std=c++17"};
  if (options.approximate_division) {
    texts.insert(texts.end(), {"-prec-div=false", "-prec-sqrt=false"});
  }
  return texts;
}

// What the code depends on, as one text.
std::string KeyOf(const std::string& source,
                  const std::vector<std::string>& options) {
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  std::string key = fmt::format("nvrtc {}.{}", major, minor);
  for (const std::string& option : options) key += " " + option;
  return key + "\n" + source;
}

std::string CacheFolder() {
  if (const char* set = std::getenv("XDG_CACHE_HOME"); set && *set) {
    return std::string(set) + "/asyra";
  }
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.cache/asyra" : "";
}

// FNV-1a, only to name files: they hold their whole key.
std::string CachePath(const std::string& key) {
  std::string folder = CacheFolder();
  if (folder.empty()) return "";
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : key) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return fmt::format("{}/{:016x}.cubin", folder, hash);
}

// A file is the key, a zero byte, the code's size, a zero byte, the code; one
// of another key or cut short is none.
std::string ReadCached(const std::string& path, const std::string& key) {
  absl::StatusOr<std::string> file = ReadFile(path);
  if (!file.ok()) return "";
  size_t at = key.size() + 1;
  if (file->size() < at || file->compare(0, at, key.c_str(), at) != 0) {
    return "";
  }
  size_t end = file->find('\0', at);
  if (end == std::string::npos) return "";
  size_t size = std::strtoull(file->c_str() + at, nullptr, 10);
  return file->size() - end - 1 == size ? file->substr(end + 1) : "";
}

// A cache that cannot be written is none; that is no error.
void WriteCached(const std::string& path, const std::string& key,
                 const std::string& cubin) {
  std::error_code ignored;
  std::filesystem::create_directories(CacheFolder(), ignored);
  constexpr std::string_view kZero("\0", 1);
  std::string size = std::to_string(cubin.size());
  WriteFileAtomically(path, {key, kZero, size, kZero, cubin}).IgnoreError();
}

absl::StatusOr<int> ArchitectureOfGpu() {
  int gpu = 0, major = 0, minor = 0;
  ASYRA_CUDA(cudaGetDevice(&gpu));
  ASYRA_CUDA(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu));
  ASYRA_CUDA(
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu));
  return 10 * major + minor;
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

absl::StatusOr<std::string> CompileToCubin(const std::string& source,
                                           const NvrtcOptions& options) {
  std::vector<std::string> texts = OptionsFor(options);
  std::string key = KeyOf(source, texts), path = CachePath(key);
  std::string cubin = path.empty() ? "" : ReadCached(path, key);
  if (!cubin.empty()) return cubin;
  NvrtcProgram program;
  ASYRA_RETURN_IF_ERROR(program.Compile(source, texts));
  ASYRA_ASSIGN_OR_RETURN(cubin, program.Cubin());
  if (!path.empty()) WriteCached(path, key, cubin);
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
