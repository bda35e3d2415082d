// Steps of an executor that are enqueued before the earlier ones have ended:
// memory of the host for the inputs and the small outputs of each of them.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/device.h"

namespace asyra {

class StepQueue {
 public:
  struct Value {
    void* data;  // on the device
    int64_t bytes;
  };
  // Reserves all memory. Device and stream outlive it. Errors: memory.
  static absl::StatusOr<std::unique_ptr<StepQueue>> Create(
      Device& device, Stream& home, std::vector<Value> inputs,
      std::vector<Value> scalars);

  // Waits until the memory of the next step is free.
  absl::Status Begin(const WaitCheck& check);
  // Copies one input of it, and enqueues the copy to the device.
  void CopyInput(size_t index, const void* from);
  // Ends the step, after it was enqueued; gives its number.
  int64_t End();

  // Waits for a step. Error: it is not one of the last kSteps.
  absl::Status Await(int64_t step, const WaitCheck& check);
  // Returns the time of such a step that has ended: since the end of the step
  // before it, as the device saw it. Error: there was none.
  absl::StatusOr<double> MicrosecondsOf(int64_t step) const;
  // Returns a scalar of such a step that has ended.
  const void* Scalar(int64_t step, size_t index) const;

  static constexpr int64_t kSteps = 2;  // in flight

 private:
  StepQueue(Device& device, Stream& home) : device_(device), home_(home) {}
  absl::Status CheckInFlight(int64_t step) const;
  Event& done(int64_t step) const { return *done_[step % kEvents]; }
  // Returns an address in the memory of a step.
  std::byte* At(int64_t step, int64_t offset) const {
    return static_cast<std::byte*>(memory_[step % kSteps]->data()) + offset;
  }

  Device& device_;
  Stream& home_;
  std::vector<Value> inputs_, scalars_;
  std::vector<int64_t> input_at_, scalar_at_;  // offsets in a step's memory
  // Inputs, then scalars, of each step in flight.
  std::array<std::unique_ptr<DeviceMemory>, kSteps> memory_;
  // The end of the step before those in flight too.
  static constexpr int64_t kEvents = kSteps + 1;
  std::array<std::unique_ptr<Event>, kEvents> done_;
  int64_t next_ = 0;  // step
};

}  // namespace asyra
