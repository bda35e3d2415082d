#include "executor/cuda/device/sm_partition.h"

#include <cuda.h>

#include <map>
#include <mutex>
#include <utility>

#include "executor/cuda/device/cuda_stream.h"
#include "executor/cuda/device/driver_function.h"

namespace asyra::cuda {
namespace {

// Driver functions since CUDA 12.5.
struct Driver {
  decltype(&cuDeviceGetDevResource) get = nullptr;
  decltype(&cuDevSmResourceSplitByCount) split = nullptr;
  decltype(&cuDevResourceGenerateDesc) describe = nullptr;
  decltype(&cuGreenCtxCreate) create = nullptr;
  decltype(&cuGreenCtxStreamCreate) create_stream = nullptr;
};

template <typename Function>
absl::Status Load(const char* name, Function* function) {
  ASYRA_ASSIGN_OR_RETURN(void* address, DriverFunction(name, 12050));
  if (address == nullptr) return Unimplemented("the driver has no {}", name);
  *function = reinterpret_cast<Function>(address);
  return absl::OkStatus();
}

absl::StatusOr<Driver> LoadDriver() {
  Driver driver;
  ASYRA_RETURN_IF_ERROR(Load("cuDeviceGetDevResource", &driver.get));
  ASYRA_RETURN_IF_ERROR(Load("cuDevSmResourceSplitByCount", &driver.split));
  ASYRA_RETURN_IF_ERROR(Load("cuDevResourceGenerateDesc", &driver.describe));
  ASYRA_RETURN_IF_ERROR(Load("cuGreenCtxCreate", &driver.create));
  ASYRA_RETURN_IF_ERROR(Load("cuGreenCtxStreamCreate", &driver.create_stream));
  return driver;
}

absl::Status Offered(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  return Unimplemented("{}: error {} of the driver", what,
                       static_cast<int>(result));
}

absl::StatusOr<CUgreenCtx> MakeContext(const Driver& driver, int gpu,
                                       int margin) {
  // A runtime's ordinal is the driver's device.
  CUdevResource all, apart, rest;
  ASYRA_RETURN_IF_ERROR(Offered(driver.get(gpu, &all, CU_DEV_RESOURCE_TYPE_SM),
                                "cuDeviceGetDevResource"));
  unsigned groups = 1;
  ASYRA_RETURN_IF_ERROR(
      Offered(driver.split(&apart, &groups, &all, &rest, 0, margin),
              "cuDevSmResourceSplitByCount"));
  if (groups != 1 || rest.sm.smCount == 0) {
    return Unimplemented("{} of {} SMs cannot be set apart", margin,
                         all.sm.smCount);
  }
  CUdevResourceDesc description = nullptr;
  ASYRA_RETURN_IF_ERROR(Offered(driver.describe(&description, &rest, 1),
                                "cuDevResourceGenerateDesc"));
  CUgreenCtx context = nullptr;
  ASYRA_RETURN_IF_ERROR(Offered(
      driver.create(&context, description, gpu, CU_GREEN_CTX_DEFAULT_STREAM),
      "cuGreenCtxCreate"));
  return context;
}

// One for each GPU and number, made once, for as long as the process lives.
absl::StatusOr<CUgreenCtx> ContextBut(const Driver& driver, int margin) {
  static std::mutex mutex;
  static auto* contexts = new std::map<std::pair<int, int>, CUgreenCtx>();
  int gpu = 0;
  ASYRA_CUDA(cudaGetDevice(&gpu));
  std::lock_guard lock(mutex);
  CUgreenCtx& context = (*contexts)[{gpu, margin}];
  if (context == nullptr) {
    ASYRA_ASSIGN_OR_RETURN(context, MakeContext(driver, gpu, margin));
  }
  return context;
}

class KernelOnPartition : public CudaKernel {
 public:
  KernelOnPartition(std::unique_ptr<CudaKernel> kernel,
                    std::unique_ptr<PartStream> part)
      : kernel_(std::move(kernel)), part_(std::move(part)) {}

  int64_t workspace_bytes() const override {
    return kernel_->workspace_bytes();
  }
  bool is_native() const override { return kernel_->is_native(); }
  bool is_whole() const override { return kernel_->is_whole(); }
  void AddTuningResults(TuningResults* results) const override {
    kernel_->AddTuningResults(results);
  }
  absl::Status Bind(const KernelArgs& args) override {
    return kernel_->Bind(args);
  }
  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    return part_->Within(stream, [&](cudaStream_t part) {
      return kernel_->Enqueue(args, part);
    });
  }

 private:
  std::unique_ptr<CudaKernel> kernel_;
  std::unique_ptr<PartStream> part_;
};

}  // namespace

absl::StatusOr<int> SmsWithin(int margin) {
  int gpu = 0, all = 0;
  ASYRA_CUDA(cudaGetDevice(&gpu));
  ASYRA_CUDA(cudaDeviceGetAttribute(&all, cudaDevAttrMultiProcessorCount, gpu));
  if (margin < all) return all - margin;
  return Invalid("sm_margin is {}, the GPU has {} SMs", margin, all);
}

absl::StatusOr<std::unique_ptr<PartStream>> PartStream::Create(int margin) {
  ASYRA_RETURN_IF_ERROR(SmsWithin(margin).status());
  static const auto* driver = new absl::StatusOr<Driver>(LoadDriver());
  ASYRA_RETURN_IF_ERROR(driver->status());
  ASYRA_ASSIGN_OR_RETURN(CUgreenCtx context, ContextBut(**driver, margin));
  std::unique_ptr<PartStream> stream(new PartStream());
  ASYRA_ASSIGN_OR_RETURN(int priority, PriorityOf(StreamUse::kCompute));
  ASYRA_RETURN_IF_ERROR(
      Offered((*driver)->create_stream(&stream->part_, context,
                                       CU_STREAM_NON_BLOCKING, priority),
              "cuGreenCtxStreamCreate"));
  for (cudaEvent_t* event : {&stream->begin_, &stream->end_}) {
    ASYRA_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  }
  return stream;
}

PartStream::~PartStream() {
  if (begin_ != nullptr) cudaEventDestroy(begin_);
  if (end_ != nullptr) cudaEventDestroy(end_);
  if (part_ != nullptr) cudaStreamDestroy(part_);
}

absl::Status PartStream::Within(
    cudaStream_t stream,
    absl::FunctionRef<absl::Status(cudaStream_t part)> enqueue) const {
  ASYRA_CUDA(cudaEventRecord(begin_, stream));
  ASYRA_CUDA(cudaStreamWaitEvent(part_, begin_));
  ASYRA_RETURN_IF_ERROR(enqueue(part_));
  ASYRA_CUDA(cudaEventRecord(end_, part_));
  ASYRA_CUDA(cudaStreamWaitEvent(stream, end_));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Kernel>> OnSmPartition(
    std::unique_ptr<CudaKernel> kernel, int margin) {
  auto part = PartStream::Create(margin);
  // All SMs give the same result, only collectives start later.
  if (absl::IsUnimplemented(part.status())) return kernel;
  ASYRA_RETURN_IF_ERROR(part.status());
  return std::make_unique<KernelOnPartition>(std::move(kernel),
                                             *std::move(part));
}

}  // namespace asyra::cuda
