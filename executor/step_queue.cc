#include "executor/step_queue.h"

#include <cstring>

#include "ir/support/round_up.h"
#include "ir/support/status.h"

namespace asyra {

absl::StatusOr<std::unique_ptr<StepQueue>> StepQueue::Create(
    Device& device, Stream& home, std::vector<Value> inputs,
    std::vector<Value> scalars) {
  std::unique_ptr<StepQueue> queue(new StepQueue(device, home));
  queue->inputs_ = std::move(inputs);
  queue->scalars_ = std::move(scalars);
  int64_t bytes = 0;
  auto place = [&](const std::vector<Value>& values, std::vector<int64_t>* at) {
    for (const Value& value : values) {
      at->push_back(bytes);
      bytes += RoundUp(value.bytes, kDeviceAlignment);
    }
  };
  place(queue->inputs_, &queue->input_at_);
  place(queue->scalars_, &queue->scalar_at_);
  for (auto& memory : queue->memory_) {
    auto host = device.AllocateHost(bytes);
    if (!host.ok()) return Annotate(host.status(), "inputs on the host");
    memory = *std::move(host);
  }
  for (auto& done : queue->done_) done = device.CreateEvent(/*timed=*/true);
  return queue;
}

absl::Status StepQueue::Begin(const WaitCheck& check) {
  if (next_ < kSteps) return absl::OkStatus();
  return home_.SynchronizeUpTo(done(next_ - kSteps), check);
}

void StepQueue::CopyInput(size_t index, const void* from) {
  const Value& input = inputs_[index];
  std::byte* staged = At(next_, input_at_[index]);
  std::memcpy(staged, from, input.bytes);
  device_.CopyToDevice(input.data, staged, input.bytes, home_);
}

int64_t StepQueue::End() {
  for (size_t i = 0; i < scalars_.size(); ++i) {
    device_.CopyToHost(At(next_, scalar_at_[i]), scalars_[i].data,
                       scalars_[i].bytes, home_);
  }
  home_.Record(done(next_));
  return next_++;
}

absl::Status StepQueue::CheckInFlight(int64_t step) const {
  if (step >= 0 && step < next_ && step >= next_ - kSteps) {
    return absl::OkStatus();
  }
  return Invalid("step {} is none of the last {} of {}", step, kSteps, next_);
}

absl::Status StepQueue::Await(int64_t step, const WaitCheck& check) {
  ASYRA_RETURN_IF_ERROR(CheckInFlight(step));
  return home_.SynchronizeUpTo(done(step), check);
}

absl::StatusOr<double> StepQueue::MicrosecondsOf(int64_t step) const {
  ASYRA_RETURN_IF_ERROR(CheckInFlight(step));
  if (step == 0) return Invalid("step 0 has none before it");
  return done(step).UsSince(done(step - 1));
}

const void* StepQueue::Scalar(int64_t step, size_t index) const {
  return At(step, scalar_at_[index]);
}

}  // namespace asyra
