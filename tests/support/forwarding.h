// A kernel, a device, a platform and a communicator that do what another one
// does; tests override what is to be different.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/comm/communicator.h"
#include "executor/comm/plan_link.h"
#include "executor/device.h"
#include "executor/run.h"

namespace asyra {

class ForwardingKernel : public Kernel {
 public:
  explicit ForwardingKernel(std::unique_ptr<Kernel> kernel)
      : kernel_(std::move(kernel)) {}
  int64_t workspace_bytes() const override {
    return kernel_->workspace_bytes();
  }
  bool is_native() const override { return kernel_->is_native(); }
  bool is_whole() const override { return kernel_->is_whole(); }
  std::string_view transport() const override { return kernel_->transport(); }
  void AddTuningResults(TuningResults* results) const override {
    kernel_->AddTuningResults(results);
  }
  int queues() const override { return kernel_->queues(); }
  void UseQueues(absl::Span<Stream* const> queues) override {
    kernel_->UseQueues(queues);
  }
  void RecordParts() override { kernel_->RecordParts(); }
  std::vector<KernelPart> parts() const override { return kernel_->parts(); }
  absl::Status Bind(const KernelArgs& args) override {
    kernel_->set_label(label());
    return kernel_->Bind(args);
  }
  void Launch(const KernelArgs& args, Stream& stream) override {
    kernel_->Launch(args, stream);
  }
  bool has_self_copy() const override { return kernel_->has_self_copy(); }
  void LaunchSelfCopy(const KernelArgs& args, Stream& stream) override {
    kernel_->LaunchSelfCopy(args, stream);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
};

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::shared_ptr<Device> device)
      : device_(std::move(device)) {}
  std::string_view name() const override { return device_->name(); }
  std::string identity() override { return device_->identity(); }
  int64_t BytesInUse() override { return device_->BytesInUse(); }
  int64_t BytesLeft() override { return device_->BytesLeft(); }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(
      int64_t bytes) override {
    return device_->Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(
      int64_t bytes) override {
    return device_->AllocateHost(bytes);
  }
  absl::StatusOr<std::unique_ptr<Stream>> WrapStream(
      void* native, Failure* failure) override {
    return device_->WrapStream(native, failure);
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(
      std::string_view name, StreamUse use, Failure* failure) override {
    return device_->CreateStream(name, use, failure);
  }
  std::unique_ptr<Event> CreateEvent(bool timed) override {
    return device_->CreateEvent(timed);
  }
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      absl::Span<Stream* const> streams,
      std::function<void()> enqueue) override {
    return device_->Record(streams, std::move(enqueue));
  }
  void CopyToDevice(void* to, const void* from, int64_t bytes,
                    Stream& stream) override {
    device_->CopyToDevice(to, from, bytes, stream);
  }
  void CopyToHost(void* to, const void* from, int64_t bytes,
                  Stream& stream) override {
    device_->CopyToHost(to, from, bytes, stream);
  }
  void Copy(void* to, const void* from, int64_t bytes,
            Stream& stream) override {
    device_->Copy(to, from, bytes, stream);
  }
  void Fill(void* to, uint8_t byte, int64_t bytes, Stream& stream) override {
    device_->Fill(to, byte, bytes, stream);
  }
  void StoreInHalves(void* to, const void* from, int64_t count,
                     Stream& stream) override {
    device_->StoreInHalves(to, from, count, stream);
  }
  int64_t part_alignment() const override { return device_->part_alignment(); }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareKernel(
      const KernelUse& use) override {
    return device_->PrepareKernel(use);
  }
  void SetTuningResults(const TuningResults& results) override {
    device_->SetTuningResults(results);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareProbe(
      const ProbeUse& use) override {
    return device_->PrepareProbe(use);
  }

 private:
  std::shared_ptr<Device> device_;
};

// `world` outlives it.
class ForwardingWorld : public Communicator {
 public:
  explicit ForwardingWorld(Communicator& world) : world_(world) {}
  std::string_view name() const override { return world_.name(); }
  std::string_view device() const override { return world_.device(); }
  int64_t rank() const override { return world_.rank(); }
  int64_t size() const override { return world_.size(); }
  absl::StatusOr<std::vector<std::string>> Exchange(
      std::string_view mine) override {
    return world_.Exchange(mine);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareCollective(
      const CollectiveUse& use) override {
    return world_.PrepareCollective(use);
  }
  absl::StatusOr<std::string> CopyEngineObstacle(
      const CollectiveUse& use) override {
    return world_.CopyEngineObstacle(use);
  }
  absl::StatusOr<bool> CarriesPlans(std::string_view transport) override {
    return world_.CarriesPlans(transport);
  }
  absl::StatusOr<std::unique_ptr<PlanLink>> LinkPlan(
      const PlanUse& use) override {
    return world_.LinkPlan(use);
  }
  absl::StatusOr<std::string> OneKernelObstacle(
      const CollectiveUse& use) override {
    return world_.OneKernelObstacle(use);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareOneKernel(
      const CollectiveUse& use) override {
    return world_.PrepareOneKernel(use);
  }
  void BeginStep() override { world_.BeginStep(); }
  std::vector<int64_t> RanksBehind() const override {
    return world_.RanksBehind();
  }
  absl::Status Check(double waited_s) override {
    return world_.Check(waited_s);
  }
  void Drain() override { world_.Drain(); }
  void Abort(const absl::Status& cause) override { world_.Abort(cause); }

 private:
  Communicator& world_;
};

class ForwardingPlatform : public Platform {
 public:
  explicit ForwardingPlatform(std::unique_ptr<Platform> platform)
      : platform_(std::move(platform)) {}
  std::string_view name() const override { return platform_->name(); }
  absl::Status CheckRanks(int64_t ranks_here) const override {
    return platform_->CheckRanks(ranks_here);
  }
  absl::StatusOr<std::shared_ptr<Device>> MakeDevice(
      int64_t local_rank, int64_t ranks_on_host) override {
    return platform_->MakeDevice(local_rank, ranks_on_host);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      Communicator& control, Device& device) override {
    return platform_->Connect(control, device);
  }

 private:
  std::unique_ptr<Platform> platform_;
};

}  // namespace asyra
