// The interface of a device to the executor: memory, streams, events, copies
// and kernels. Addresses of device memory are never dereferenced outside the
// device's own code.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/failure.h"
#include "executor/kernel.h"
#include "executor/stream.h"
#include "ir/support/alignment.h"

namespace asyra {

// Freed when it goes out of scope; nothing may be running on it then.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* data() const = 0;
  virtual int64_t bytes() const = 0;
};

// Debugging aids that run on a stream between the kernels.
enum class Probe : uint8_t {
  kFinite,  // fails on a NaN or an infinity in the value
  kPoison,  // fills the value, so that what is read unwritten shows
  kSeal,    // remembers a checksum of the value in `cell`
  kVerify,  // fails when the value is no longer what was sealed
};

struct ProbeUse {
  Probe probe;
  Type local;                // of the value, one rank's part
  uint64_t* cell = nullptr;  // host memory that outlives the probe
};

// A device at this moment. Fields are 0 where they are not known.
struct PowerState {
  double mhz = 0;       // of its SMs
  double most_mhz = 0;  // the highest
  double watts = 0;     // in the mean over about a second
  double limit_w = 0;   // of it
};

// Thread-safe; streams and memory are used by those who asked for them.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  // Returns what the times of its kernels depend on besides the program, on one
  // line: its model, how it is used, the versions of driver and libraries.
  virtual std::string identity() { return std::string(name()); }

  // Bytes of the device's memory in use by any process; 0 if unknown.
  virtual int64_t BytesInUse() { return 0; }

  // Bytes that can still be reserved, by all of its users together; INT64_MAX
  // if unknown.
  virtual int64_t BytesLeft() { return INT64_MAX; }

  // May be called while the device works, and takes the host some us.
  virtual PowerState Power() { return {}; }

  // Errors: ResourceExhausted, naming what is asked and what is left.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(
      int64_t bytes) = 0;
  // Allocates memory of the host that copies to and from the device read and
  // write without waiting. Errors: the system's.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateHost(
      int64_t bytes) = 0;
  // `failure` outlives the stream, `name` is for people.
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream(
      std::string_view name, StreamUse use, Failure* failure) = 0;
  // Wraps a stream of the caller's own, which outlives the result: a
  // cudaStream_t.
  // Error: the device has no streams of others.
  virtual absl::StatusOr<std::unique_ptr<Stream>> WrapStream(
      void* native, Failure* failure) = 0;
  virtual std::unique_ptr<Event> CreateEvent(bool timed) = 0;
  // Records what `enqueue` enqueues on `streams` without running it; each
  // replay enqueues all of it at little cost. The other streams begin with an
  // event recorded on the first, which waits for all of them at the end. Events
  // recorded in it are used nowhere else. The streams and what `enqueue` refers
  // to outlive the recording.
  // Errors: work that cannot be recorded.
  virtual absl::StatusOr<std::unique_ptr<Recording>> Record(
      absl::Span<Stream* const> streams, std::function<void()> enqueue) = 0;

  // Enqueue copies; host memory stays valid until they are done. CopyToDevice
  // and CopyToHost take memory of the device at both ends too.
  virtual void CopyToDevice(void* to, const void* from, int64_t bytes,
                            Stream& stream) = 0;
  virtual void CopyToHost(void* to, const void* from, int64_t bytes,
                          Stream& stream) = 0;
  virtual void Copy(void* to, const void* from, int64_t bytes,
                    Stream& stream) = 0;
  virtual void Fill(void* to, uint8_t byte, int64_t bytes, Stream& stream) = 0;
  // Enqueues that `count` f32 at `from` are stored in halves at `to`
  // (ir/halves.h); both are memory of the device, and do not overlap.
  virtual void StoreInHalves(void* to, const void* from, int64_t count,
                             Stream& stream) = 0;

  // Kernels take operands and results within a value where they begin at
  // multiples of this.
  virtual int64_t part_alignment() const { return 1; }
  // Prepares the kernel of an op that is no collective and no view.
  // Unimplemented where the device cannot compute it.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> PrepareKernel(
      const KernelUse& use) = 0;
  // Kernels prepared from now on use these tuning results, where they are valid
  // on this device, instead of its own.
  virtual void SetTuningResults(const TuningResults& results) { (void)results; }
  // Prepares a probe of one operand; its label says whose.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> PrepareProbe(
      const ProbeUse& use) = 0;
};

}  // namespace asyra
