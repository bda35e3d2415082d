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
  for (Slot& slot : queue->slots_) {
    auto memory = device.AllocateHost(bytes);
    if (!memory.ok()) return Annotate(memory.status(), "inputs on the host");
    slot.memory = *std::move(memory);
    slot.done = device.CreateEvent(/*timed=*/false);
  }
  return queue;
}

absl::Status StepQueue::Begin(const WaitCheck& check) {
  if (next_ < kSteps) return absl::OkStatus();
  return home_.SynchronizeUpTo(*slot(next_).done, check);
}

void StepQueue::CopyInput(size_t index, const void* from) {
  const Value& input = inputs_[index];
  std::byte* staged = At(slot(next_), input_at_[index]);
  std::memcpy(staged, from, input.bytes);
  device_.CopyToDevice(input.data, staged, input.bytes, home_);
}

int64_t StepQueue::End() {
  for (size_t i = 0; i < scalars_.size(); ++i) {
    device_.CopyToHost(At(slot(next_), scalar_at_[i]), scalars_[i].data,
                       scalars_[i].bytes, home_);
  }
  home_.Record(*slot(next_).done);
  return next_++;
}

absl::Status StepQueue::Await(int64_t step, const WaitCheck& check) {
  if (step < 0 || step >= next_ || step < next_ - kSteps) {
    return Invalid("step {} is none of the last {} of {}", step, kSteps, next_);
  }
  return home_.SynchronizeUpTo(*slot(step).done, check);
}

const void* StepQueue::Scalar(int64_t step, size_t index) const {
  return At(slots_[step % kSteps], scalar_at_[index]);
}

}  // namespace asyra
