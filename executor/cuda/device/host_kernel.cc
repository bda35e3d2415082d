#include "executor/cuda/device/host_kernel.h"

#include <cstring>

#include "executor/reference.h"
#include "ir/support/status.h"

namespace asyra::cuda {
namespace {

// Memory of the host that the GPU copies from and to.
class HostBuffer {
 public:
  absl::Status Allocate(int64_t bytes) {
    bytes_ = bytes;
    if (bytes == 0) return absl::OkStatus();
    ASYRA_CUDA(cudaHostAlloc(&data_, bytes, cudaHostAllocPortable));
    return absl::OkStatus();
  }
  HostBuffer() = default;
  HostBuffer(HostBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  ~HostBuffer() {
    if (data_ != nullptr) cudaFreeHost(data_);
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

absl::StatusOr<HostBuffer> BufferOf(const Type& type) {
  HostBuffer buffer;
  ASYRA_RETURN_IF_ERROR(buffer.Allocate(type.bytes()));
  return buffer;
}

absl::Status CopyBuffers(const std::vector<HostBuffer>& buffers,
                         absl::Span<void* const> device, cudaMemcpyKind kind,
                         cudaStream_t stream) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    void *host = buffers[i].data(), *there = device[i];
    if (buffers[i].bytes() == 0) continue;
    bool up = kind == cudaMemcpyHostToDevice;
    ASYRA_CUDA(cudaMemcpyAsync(up ? there : host, up ? host : there,
                               buffers[i].bytes(), kind, stream));
  }
  return absl::OkStatus();
}

void CopyInto(const std::vector<Tensor>& results,
              const std::vector<HostBuffer>& buffers) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].bytes() == 0) continue;
    std::memcpy(buffers[i].data(), results[i].data(), results[i].bytes());
  }
}

class HostKernel : public Kernel {
 public:
  explicit HostKernel(const KernelUse& use) : use_(use) {}

  absl::Status Prepare() {
    for (int i = 0; i < use_.num_operands(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(HostBuffer buffer, BufferOf(use_.operand(i)));
      operands_.push_back(std::move(buffer));
    }
    for (int i = 0; i < use_.num_results(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(HostBuffer buffer, BufferOf(use_.result(i)));
      results_.push_back(std::move(buffer));
    }
    return absl::OkStatus();
  }

  bool is_native() const override { return false; }

  void Launch(const KernelArgs& args, Stream& stream) override {
    auto& on = static_cast<CudaStream&>(stream);
    stream_ = &on;
    absl::Status status = Enqueue(args, on.handle());
    if (!status.ok()) on.Report(Annotate(status, label()));
  }

 private:
  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) {
    ASYRA_RETURN_IF_ERROR(
        CopyBuffers(operands_, args.operands, cudaMemcpyDeviceToHost, stream));
    auto run = [](void* kernel) { static_cast<HostKernel*>(kernel)->Run(); };
    ASYRA_CUDA(cudaLaunchHostFunc(stream, run, this));
    return CopyBuffers(results_, args.results, cudaMemcpyHostToDevice, stream);
  }

  // Runs on a thread of CUDA's, in the order of the stream.
  void Run() {
    std::vector<Tensor> operands;
    for (int i = 0; i < use_.num_operands(); ++i) {
      const Type& type = use_.operand(i);
      operands.push_back(
          Tensor::View(type.dtype, type.shape(), operands_[i].data(), nullptr));
    }
    absl::StatusOr<std::vector<Tensor>> results =
        ComputeByReference(use_, operands);
    if (results.ok()) {
      CopyInto(*results, results_);
    } else {
      stream_->Report(Annotate(results.status(), label()));
    }
  }

  KernelUse use_;
  CudaStream* stream_ = nullptr;
  std::vector<HostBuffer> operands_, results_;
};

class KnownKernel : public CudaKernel {
 public:
  absl::Status Prepare(const KernelUse& use) {
    ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> results,
                           ComputeByReference(use, {}));
    for (int i = 0; i < use.num_results(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(HostBuffer buffer, BufferOf(use.result(i)));
      results_.push_back(std::move(buffer));
    }
    CopyInto(results, results_);
    return absl::OkStatus();
  }
  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    return CopyBuffers(results_, args.results, cudaMemcpyHostToDevice, stream);
  }

 private:
  std::vector<HostBuffer> results_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareHostKernel(
    const KernelUse& use) {
  ASYRA_RETURN_IF_ERROR(use.RequireDense());
  if (use.def().reference == nullptr) {
    return Unimplemented("{} has no kernel and no reference on cuda",
                         use.def().name);
  }
  if (use.num_operands() == 0 && use.def().is_pure) {
    auto kernel = std::make_unique<KnownKernel>();
    ASYRA_RETURN_IF_ERROR(kernel->Prepare(use));
    return kernel;
  }
  auto kernel = std::make_unique<HostKernel>(use);
  ASYRA_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

}  // namespace asyra::cuda
