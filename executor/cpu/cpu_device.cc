#include "executor/cpu/cpu_device.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "executor/composite_kernel.h"
#include "executor/cpu/cpu_info.h"
#include "executor/cpu/cpu_stream.h"
#include "executor/cpu/gemm.h"
#include "executor/cpu/kernel_list.h"
#include "executor/cpu/probes.h"
#include "executor/cpu/reference_kernel.h"
#include "executor/cpu/threads.h"
#include "ir/body.h"
#include "ir/halves.h"
#include "ir/support/round_up.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

class CpuMemory : public DeviceMemory {
 public:
  CpuMemory(void* data, int64_t bytes, std::shared_ptr<std::atomic<int64_t>> in)
      : data_(data), bytes_(bytes), in_use_(std::move(in)) {}
  ~CpuMemory() override {
    std::free(data_);
    in_use_->fetch_sub(bytes_);
  }
  void* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  void* data_;
  int64_t bytes_;
  std::shared_ptr<std::atomic<int64_t>> in_use_;
};

int64_t PhysicalMemory() {
  return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
}

absl::Status Move(void* to, const void* from, int64_t bytes) {
  std::memmove(to, from, bytes);
  return absl::OkStatus();
}

class CpuRecording : public Recording {
 public:
  CpuRecording(absl::Span<Stream* const> streams,
               const std::function<void()>& enqueue) {
    for (Stream* stream : streams) {
      parts_.push_back(std::make_unique<Part>(static_cast<CpuStream*>(stream)));
    }
    for (auto& part : parts_) part->stream->BeginCapture(&part->capture);
    enqueue();
    for (auto& part : parts_) part->stream->EndCapture();
  }
  // Replayed work runs to its end.
  ~CpuRecording() override {
    for (auto& part : parts_) (void)part->stream->Synchronize(nullptr);
  }
  void Replay() override {
    for (auto& part : parts_) part->stream->Replay(&part->capture);
  }

 private:
  struct Part {
    explicit Part(CpuStream* of) : stream(of) {}
    CpuStream* stream;
    CpuCapture capture;
  };
  std::vector<std::unique_ptr<Part>> parts_;
};

class CpuDevice : public Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options)
      : threads_(options.threads_per_stream),
        limit_(options.memory_bytes > 0 ? options.memory_bytes
                                        : PhysicalMemory()) {
    if (threads_ < 1) {
      threads_ =
          static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    }
  }

  std::string_view name() const override { return "cpu"; }

  std::string identity() override {
    CpuInfo cpu = DescribeCpu();
    return fmt::format("{}, {} cores, {} threads a stream, matmuls by {}",
                       cpu.name, cpu.cores, threads_, cpu::GemmLibrary());
  }

  int64_t BytesLeft() override { return limit_ - in_use_->load(); }

  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(
      int64_t bytes) override {
    int64_t before = in_use_->fetch_add(bytes);
    void* data = nullptr;
    if (bytes <= limit_ - before) {
      int64_t size = RoundUp(std::max<int64_t>(bytes, 1), kDeviceAlignment);
      data = std::aligned_alloc(kDeviceAlignment, size);
    }
    if (data == nullptr) {
      in_use_->fetch_sub(bytes);
      return absl::ResourceExhaustedError(
          fmt::format("{} bytes are asked for, {} of {} are left on the cpu",
                      bytes, limit_ - before, limit_));
    }
    return std::make_unique<CpuMemory>(data, bytes, in_use_);
  }

  absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(
      int64_t bytes) override {
    return Allocate(bytes);
  }

  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(
      std::string_view name, StreamUse use, Failure* failure) override {
    return std::make_unique<CpuStream>(name, use, threads_, failure);
  }

  absl::StatusOr<std::unique_ptr<Stream>> WrapStream(void*, Failure*) override {
    return Unimplemented("the cpu has no streams of others");
  }

  std::unique_ptr<Event> CreateEvent(bool timed) override {
    return std::make_unique<CpuEvent>(timed);
  }

  absl::StatusOr<std::unique_ptr<Recording>> Record(
      absl::Span<Stream* const> streams,
      std::function<void()> enqueue) override {
    return std::make_unique<CpuRecording>(streams, enqueue);
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
    static_cast<CpuStream&>(stream).Enqueue(
        {.run = Move, .a = to, .b = from, .n = bytes});
  }

  void Fill(void* to, uint8_t byte, int64_t bytes, Stream& stream) override {
    auto run = [](void* a, const void* b, int64_t n) {
      // The byte travels as an address: commands own nothing.
      std::memset(a, static_cast<int>(reinterpret_cast<uintptr_t>(b)), n);
      return absl::OkStatus();
    };
    static_cast<CpuStream&>(stream).Enqueue(
        {.run = run,
         .a = to,
         .b = reinterpret_cast<const void*>(uintptr_t{byte}),
         .n = bytes});
  }

  void StoreInHalves(void* to, const void* from, int64_t count,
                     Stream& stream) override {
    auto run = [](void* a, const void* b, int64_t n) {
      StoreHalves(static_cast<const float*>(b), 0, n, n, a);
      return absl::OkStatus();
    };
    static_cast<CpuStream&>(stream).Enqueue(
        {.run = run, .a = to, .b = from, .n = count});
  }

  absl::StatusOr<std::unique_ptr<Kernel>> PrepareKernel(
      const KernelUse& use) override {
    SetComputeThreads(threads_);
    if (const CpuKernelDef* def = FindCpuKernel(use)) {
      return def->prepare(use);
    }
    if (BodyOf(use.attrs()) != nullptr) return PrepareComposite(use, *this);
    return PrepareReferenceKernel(use);
  }

  absl::StatusOr<std::unique_ptr<Kernel>> PrepareProbe(
      const ProbeUse& use) override {
    return PrepareCpuProbe(use);
  }

 private:
  int threads_;
  int64_t limit_;
  // Outlives the device where memory does.
  std::shared_ptr<std::atomic<int64_t>> in_use_ =
      std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace

std::unique_ptr<Device> CreateCpuDevice(const CpuDeviceOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

}  // namespace asyra
