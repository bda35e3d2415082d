#include "executor/cuda/device/probe_kernel.h"

#include "executor/cuda/device/element_of.h"

namespace asyra::cuda {
namespace {

constexpr int kCellsOfBlock = 8192;
// A NaN of every float type, and no small integer.
constexpr int kPoisonByte = 0xff;

class ProbeKernel : public CudaKernel {
 public:
  ProbeKernel(const ProbeUse& use, ProbeResults* probe_results,
              uint64_t* sealed, uint64_t* now)
      : use_(use),
        results_(probe_results),
        number_(probe_results->Add(&label())),
        sealed_(sealed),
        now_(now) {}
  ~ProbeKernel() override { results_->Remove(number_); }

  absl::Status Enqueue(const KernelArgs& args, cudaStream_t stream) override {
    void* data = args.operands[0];
    int64_t bytes = use_.local.bytes();
    switch (use_.probe) {
      case Probe::kFinite:
        ASYRA_CUDA(CheckFinite(ElementOf(use_.local.dtype), data,
                               use_.local.num_elements(), number_,
                               results_->shared(), stream));
        return absl::OkStatus();
      case Probe::kPoison:
        ASYRA_CUDA(cudaMemsetAsync(data, kPoisonByte, bytes, stream));
        return absl::OkStatus();
      case Probe::kSeal:
        return Sum(data, bytes, sealed_, stream);
      case Probe::kVerify:
        ASYRA_RETURN_IF_ERROR(Sum(data, bytes, now_, stream));
        ASYRA_CUDA(CompareChecksums(sealed_, now_, number_, results_->shared(),
                                    stream));
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Sum(const void* data, int64_t bytes, uint64_t* cell,
                          cudaStream_t stream) {
    ASYRA_CUDA(cudaMemsetAsync(cell, 0, sizeof(*cell), stream));
    ASYRA_CUDA(AddChecksum(data, bytes, cell, stream));
    return absl::OkStatus();
  }

  ProbeUse use_;
  ProbeResults* results_;
  int number_;
  uint64_t *sealed_, *now_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Probes>> Probes::Create() {
  std::unique_ptr<Probes> probes(new Probes());
  ASYRA_ASSIGN_OR_RETURN(probes->probe_results_, ProbeResults::Create());
  return probes;
}

Probes::~Probes() {
  for (void* block : blocks_) cudaFree(block);
}

absl::StatusOr<uint64_t*> Probes::NewCell() {
  if (cells_left_ == 0) {
    void* block = nullptr;
    ASYRA_CUDA(cudaMalloc(&block, kCellsOfBlock * sizeof(uint64_t)));
    blocks_.push_back(block);
    cells_left_ = kCellsOfBlock;
  }
  return static_cast<uint64_t*>(blocks_.back()) + --cells_left_;
}

absl::StatusOr<std::unique_ptr<Kernel>> Probes::Prepare(const ProbeUse& use) {
  uint64_t *sealed = nullptr, *now = nullptr;
  if (use.cell != nullptr) {
    uint64_t*& cell = sealed_[use.cell];
    if (cell == nullptr) {
      ASYRA_ASSIGN_OR_RETURN(cell, NewCell());
    }
    sealed = cell;
    ASYRA_ASSIGN_OR_RETURN(now, NewCell());
  }
  return std::make_unique<ProbeKernel>(use, probe_results_.get(), sealed, now);
}

}  // namespace asyra::cuda
