#include "executor/cuda/device/cuda_device.h"

#include <cstdlib>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "executor/composite_kernel.h"
#include "executor/cuda/cudnn/cudnn.h"
#include "executor/cuda/device/cuda_stream.h"
#include "executor/cuda/device/device_info.h"
#include "executor/cuda/device/gpu_tuning.h"
#include "executor/cuda/device/host_kernel.h"
#include "executor/cuda/device/nvml.h"
#include "executor/cuda/device/probe_kernel.h"
#include "executor/cuda/kernels/halves.h"
#include "executor/cuda/kernels/kernel_list.h"
#include "ir/body.h"
#include "ir/gpu/vector_bytes.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using cuda::CudaStream;
using cuda::OnGpu;

class CudaMemory : public DeviceMemory {
 public:
  CudaMemory(int ordinal, void* data, int64_t bytes)
      : ordinal_(ordinal), data_(data), bytes_(bytes) {}
  ~CudaMemory() override {
    OnGpu gpu(ordinal_);
    cudaFree(data_);
  }
  void* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  int ordinal_;
  void* data_;
  int64_t bytes_;
};

// Page-locked memory of the host.
class PinnedMemory : public DeviceMemory {
 public:
  PinnedMemory(int ordinal, void* data, int64_t bytes)
      : ordinal_(ordinal), data_(data), bytes_(bytes) {}
  ~PinnedMemory() override {
    OnGpu gpu(ordinal_);
    cudaFreeHost(data_);
  }
  void* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  int ordinal_;
  void* data_;
  int64_t bytes_;
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(const CudaDeviceOptions& options) : options_(options) {}

  absl::Status Initialize() {
    OnGpu gpu(options_.ordinal);
    ASYRA_CUDA(cudaFree(nullptr));  // makes the context
    ASYRA_ASSIGN_OR_RETURN(probes_, cuda::Probes::Create());
    return absl::OkStatus();
  }

  ~CudaDevice() override {
    OnGpu gpu(options_.ordinal);
    probes_.reset();
  }

  std::string_view name() const override { return "cuda"; }

  std::string identity() override {
    OnGpu gpu(options_.ordinal);
    absl::StatusOr<std::string> model = cuda::GpuModel();
    absl::StatusOr<CudaDeviceInfo> info = DescribeCuda();
    return fmt::format("{}, {}, cuDNN {}, {}",
                       model.ok() ? *model : std::string(name()),
                       info.ok() ? info->libraries : "", cuda::CudnnVersion(),
                       options_.graphs ? "graphs" : "op by op");
  }
  int ordinal() const { return options_.ordinal; }

  PowerState Power() override {
    absl::MutexLock lock(&power_mutex_);
    if (meter_ == nullptr) {
      meter_ = std::make_unique<cuda::Meter>(options_.ordinal);
    }
    return meter_->Read();
  }

  int64_t BytesInUse() override {
    OnGpu gpu(options_.ordinal);
    size_t left = 0, all = 0;
    if (cudaMemGetInfo(&left, &all) != cudaSuccess) return 0;
    return static_cast<int64_t>(all - left);
  }

  int64_t BytesLeft() override {
    OnGpu gpu(options_.ordinal);
    size_t left = 0, all = 0;
    if (cudaMemGetInfo(&left, &all) != cudaSuccess) return INT64_MAX;
    return static_cast<int64_t>(left);
  }

  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(
      int64_t bytes) override {
    OnGpu gpu(options_.ordinal);
    void* data = nullptr;
    cudaError_t error = cudaMalloc(&data, std::max<int64_t>(bytes, 1));
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      size_t left = 0, all = 0;
      ASYRA_CUDA(cudaMemGetInfo(&left, &all));
      return absl::ResourceExhaustedError(
          fmt::format("{} bytes are asked for, {} of {} are left on GPU {}",
                      bytes, left, all, options_.ordinal));
    }
    ASYRA_RETURN_IF_ERROR(cuda::ToStatus(error, "cudaMalloc"));
    return std::make_unique<CudaMemory>(options_.ordinal, data, bytes);
  }

  absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(
      int64_t bytes) override {
    OnGpu gpu(options_.ordinal);
    void* data = nullptr;
    ASYRA_CUDA(cudaMallocHost(&data, std::max<int64_t>(bytes, 1)));
    return std::make_unique<PinnedMemory>(options_.ordinal, data, bytes);
  }

  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(
      std::string_view /*name*/, StreamUse use, Failure* failure) override {
    OnGpu gpu(options_.ordinal);
    return CudaStream::Create(options_.ordinal, use, &probes_->probe_results(),
                              failure);
  }

  absl::StatusOr<std::unique_ptr<Stream>> WrapStream(
      void* native, Failure* failure) override {
    return CudaStream::Wrap(options_.ordinal, static_cast<cudaStream_t>(native),
                            failure);
  }

  // Bytes that kernels read and write at once; libraries ask for the same.
  int64_t part_alignment() const override { return kGpuVectorBytes; }

  std::unique_ptr<Event> CreateEvent(bool timed) override {
    OnGpu gpu(options_.ordinal);
    return std::make_unique<cuda::CudaEvent>(timed);
  }

  absl::StatusOr<std::unique_ptr<Recording>> Record(
      absl::Span<Stream* const> streams,
      std::function<void()> enqueue) override {
    OnGpu gpu(options_.ordinal);
    if (options_.graphs) return cuda::RecordGraph(streams, enqueue);
    return cuda::RecordFunction([this, enqueue = std::move(enqueue)] {
      OnGpu here(options_.ordinal);
      enqueue();
    });
  }

  void CopyToDevice(void* to, const void* from, int64_t bytes,
                    Stream& stream) override {
    Copy(to, from, bytes, stream);
  }
  void CopyToHost(void* to, const void* from, int64_t bytes,
                  Stream& stream) override {
    Copy(to, from, bytes, stream);
  }
  void Copy(void* to, const void* from, int64_t bytes,
            Stream& stream) override {
    if (bytes == 0) return;
    auto& on = static_cast<CudaStream&>(stream);
    OnGpu gpu(options_.ordinal);
    absl::Status status = cuda::ToStatus(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, on.handle()),
        "cudaMemcpyAsync");
    if (!status.ok()) on.Report(status);
  }

  void Fill(void* to, uint8_t byte, int64_t bytes, Stream& stream) override {
    if (bytes == 0) return;
    auto& on = static_cast<CudaStream&>(stream);
    OnGpu gpu(options_.ordinal);
    absl::Status status = cuda::ToStatus(
        cudaMemsetAsync(to, byte, bytes, on.handle()), "cudaMemsetAsync");
    if (!status.ok()) on.Report(status);
  }

  void StoreInHalves(void* to, const void* from, int64_t count,
                     Stream& stream) override {
    if (count == 0) return;
    auto& on = static_cast<CudaStream&>(stream);
    OnGpu gpu(options_.ordinal);
    absl::Status status =
        cuda::ToStatus(cuda::StoreInHalves(static_cast<const float*>(from),
                                           count, to, on.handle()),
                       "StoreInHalves");
    if (!status.ok()) on.Report(status);
  }

  absl::StatusOr<std::unique_ptr<Kernel>> PrepareKernel(
      const KernelUse& use) override {
    OnGpu gpu(options_.ordinal);
    bool has_body = BodyOf(use.attrs()) != nullptr;
    if (const CudaKernelDef* def = FindCudaKernel(use)) {
      auto kernel = def->prepare(use);
      if (kernel.ok()) {
        static_cast<CudaKernel&>(**kernel).ReportTo(&probes_->probe_results());
      }
      // Only a query tells whether a library has an algorithm for a matmul with
      // this epilogue.
      if (!has_body || !absl::IsUnimplemented(kernel.status())) return kernel;
    }
    if (has_body) return PrepareComposite(use, *this);
    return cuda::PrepareHostKernel(use);
  }

  void SetTuningResults(const TuningResults& results) override {
    cuda::GpuTuningCache().Override(results);
  }

  absl::StatusOr<std::unique_ptr<Kernel>> PrepareProbe(
      const ProbeUse& use) override {
    OnGpu gpu(options_.ordinal);
    return probes_->Prepare(use);
  }

 private:
  CudaDeviceOptions options_;
  std::unique_ptr<cuda::Probes> probes_;
  absl::Mutex power_mutex_;
  std::unique_ptr<cuda::Meter> meter_ ABSL_GUARDED_BY(power_mutex_);
};

// Lazy loading waits for the GPU at the first launch of a kernel, where a
// collective may be waiting for this very rank. A value set by the user is
// kept.
void LoadKernelsAtOnce() {
  static const int done = setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  (void)done;
}

std::string Version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(
    const CudaDeviceOptions& options) {
  LoadKernelsAtOnce();
  auto device = std::make_unique<CudaDevice>(options);
  ASYRA_RETURN_IF_ERROR(device->Initialize());
  return device;
}

int OrdinalOf(const Device& device) {
  return static_cast<const CudaDevice&>(device).ordinal();
}

absl::StatusOr<int> CountCudaDevices() {
  LoadKernelsAtOnce();
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (error == cudaErrorInsufficientDriver && driver > 0) {
    return absl::FailedPreconditionError(
        fmt::format("the driver knows CUDA {}, this build needs {}",
                    Version(driver), Version(runtime)));
  }
  if (error == cudaErrorInsufficientDriver) {
    return absl::FailedPreconditionError(
        "there is no CUDA device: no NVIDIA driver is loaded; asyra-bench "
        "--doctor says what is missing");
  }
  if (error != cudaSuccess || count == 0) {
    return absl::FailedPreconditionError(fmt::format(
        "there is no CUDA device: {}",
        error == cudaSuccess ? "none is visible" : cudaGetErrorString(error)));
  }
  return count;
}

}  // namespace asyra
