// A device and a communicator that compute nothing and write down what is
// enqueued, and what that orders.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/comm/communicator.h"
#include "executor/device.h"
#include "ir/support/check.h"

namespace asyra {

// What was enqueued, in the order in which the host did so.
struct Trace {
  enum Kind : uint8_t { kLaunch, kRecord, kWait };
  struct Entry {
    Kind kind;
    int stream;
    const Event* event = nullptr;  // of kRecord and kWait
    std::string label;             // of kLaunch
  };
  std::vector<Entry> entries;
  int streams = 0;

  // By label of a launch: the labels of those that have finished before it
  // begins. Without the entry `left_out`, a kWait, where that is given.
  std::map<std::string, std::vector<std::string>> Before(
      int left_out = -1) const;
};

inline std::map<std::string, std::vector<std::string>> Trace::Before(
    int left_out) const {
  using Set = std::vector<bool>;  // by entry: launches
  std::vector<Set> passed(streams, Set(entries.size()));
  std::map<const Event*, Set> recorded;
  std::map<std::string, std::vector<std::string>> before;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    Set& mine = passed[entry.stream];
    if (entry.kind == kRecord) {
      recorded[entry.event] = mine;
    } else if (entry.kind == kWait && static_cast<int>(i) != left_out) {
      auto theirs = recorded.find(entry.event);
      if (theirs == recorded.end()) continue;  // it has happened
      for (size_t k = 0; k < mine.size(); ++k) {
        if (theirs->second[k]) mine[k] = true;
      }
    } else if (entry.kind == kLaunch) {
      std::vector<std::string>& earlier = before[entry.label];
      for (size_t k = 0; k < mine.size(); ++k) {
        if (mine[k]) earlier.push_back(entries[k].label);
      }
      mine[i] = true;
    }
  }
  return before;
}

class TracedStream : public Stream {
 public:
  explicit TracedStream(Trace* trace)
      : trace_(trace), index_(trace->streams++) {}
  void Record(Event& event) override { Add(Trace::kRecord, &event); }
  void Wait(Event& event) override { Add(Trace::kWait, &event); }
  void Launch(const std::string& label) { Add(Trace::kLaunch, nullptr, label); }
  absl::Status Synchronize(const WaitCheck&) override {
    return absl::OkStatus();
  }
  absl::Status SynchronizeUpTo(Event&, const WaitCheck&) override {
    return absl::OkStatus();
  }

 private:
  void Add(Trace::Kind kind, const Event* event, std::string label = "") {
    trace_->entries.push_back({kind, index_, event, std::move(label)});
  }

  Trace* trace_;
  int index_;
};

class TracedKernel : public Kernel {
 public:
  void Launch(const KernelArgs&, Stream& stream) override {
    static_cast<TracedStream&>(stream).Launch(label());
  }
};

// The trace outlives it and holds what its last recording enqueued.
class TracedDevice : public Device {
 public:
  explicit TracedDevice(Trace* trace) : trace_(trace) {}
  std::string_view name() const override { return "traced"; }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(
      int64_t bytes) override {
    return std::make_unique<Memory>(bytes);
  }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(
      int64_t bytes) override {
    return std::make_unique<Memory>(bytes);
  }
  absl::StatusOr<std::unique_ptr<Stream>> WrapStream(void*, Failure*) override {
    return std::make_unique<TracedStream>(trace_);
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(std::string_view,
                                                       StreamUse,
                                                       Failure*) override {
    return std::make_unique<TracedStream>(trace_);
  }
  std::unique_ptr<Event> CreateEvent(bool) override {
    return std::make_unique<Untimed>();
  }
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      absl::Span<Stream* const>, std::function<void()> enqueue) override {
    trace_->entries.clear();
    enqueue();
    step_ = trace_->entries;
    return std::make_unique<Nothing>();
  }
  // What the last recording enqueued.
  const std::vector<Trace::Entry>& step() const { return step_; }

  void CopyToDevice(void*, const void*, int64_t, Stream&) override {}
  void CopyToHost(void*, const void*, int64_t, Stream&) override {}
  void Copy(void*, const void*, int64_t, Stream&) override {}
  void Fill(void*, uint8_t, int64_t, Stream&) override {}
  void StoreInHalves(void*, const void*, int64_t, Stream&) override {}
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareKernel(
      const KernelUse&) override {
    return std::make_unique<TracedKernel>();
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareProbe(
      const ProbeUse&) override {
    return std::make_unique<TracedKernel>();
  }

 private:
  class Memory : public DeviceMemory {
   public:
    explicit Memory(int64_t bytes) : bytes_(bytes) {}
    void* data() const override { return nullptr; }
    int64_t bytes() const override { return bytes_; }

   private:
    int64_t bytes_;
  };
  class Untimed : public Event {
   public:
    double UsSince(const Event&) const override { return 0; }
  };
  class Nothing : public Recording {
   public:
    void Replay() override {}
  };

  Trace* trace_;
  std::vector<Trace::Entry> step_;
};

// The first of `size` ranks, all of which do as it does.
class TracedWorld : public Communicator {
 public:
  explicit TracedWorld(int64_t size) : size_(size) {}
  std::string_view name() const override { return "traced"; }
  std::string_view device() const override { return "traced"; }
  int64_t rank() const override { return 0; }
  int64_t size() const override { return size_; }
  absl::StatusOr<std::vector<std::string>> Exchange(
      std::string_view mine) override {
    return std::vector<std::string>(size_, std::string(mine));
  }
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareCollective(
      const CollectiveUse& use) override {
    auto kernel = std::make_unique<TracedKernel>();
    kernel->set_label(use.label);
    return kernel;
  }
  void Abort(const absl::Status&) override {}

 private:
  int64_t size_;
};

}  // namespace asyra
