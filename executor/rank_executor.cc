#include "executor/rank_executor.h"

#include <algorithm>

#include "ir/halves.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr int64_t kMeasuredBytes = int64_t{1} << 20;  // at a time

std::string Describe(DType dtype, absl::Span<const int64_t> shape) {
  return fmt::format("{}{}", ToString(dtype), ShapeToString(shape));
}

DType TypeOf(const Tensor& tensor) { return tensor.dtype(); }
DType TypeOf(const DeviceView& view) { return view.dtype; }
const Shape& ShapeOf(const Tensor& tensor) { return tensor.shape(); }
const Shape& ShapeOf(const DeviceView& view) { return view.shape; }

}  // namespace

RankExecutor::~RankExecutor() {
  // Streams finish enqueued work before memory is freed.
  if (runner_ != nullptr) {
    runner_->home().Synchronize(WorldCheck()).IgnoreError();
  }
  if (world_ != nullptr) world_->Drain();
}

absl::StatusOr<MemoryUse> RankExecutor::MeasureMemory() {
  ASYRA_RETURN_IF_ERROR(Ready());
  if (running_) return Invalid("a step is running");
  MemoryUse used;
  int64_t* parts[] = {&used.arena_bytes, &used.resident_bytes,
                      &used.workspace_bytes};
  for (size_t i = 0; i < memory_.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(*parts[i], UsedOf(*memory_[i]));
  }
  used.shared_bytes = memory_use_.shared_bytes;
  used.device_bytes = device_->BytesInUse();
  return used;
}

// Returns the bytes up to the last unit that differs from its initial content.
absl::StatusOr<int64_t> RankExecutor::UsedOf(const DeviceMemory& memory) {
  std::vector<uint8_t> bytes(std::min(memory.bytes(), kMeasuredBytes));
  for (int64_t end = memory.bytes(); end > 0;) {
    int64_t begin = (end - 1) / kMeasuredBytes * kMeasuredBytes;
    device_->CopyToHost(bytes.data(),
                        static_cast<std::byte*>(memory.data()) + begin,
                        end - begin, runner_->home());
    ASYRA_RETURN_IF_ERROR(runner_->home().Synchronize());
    for (int64_t i = end - begin; i-- > 0;) {
      if (bytes[i] == kUnused) continue;
      return std::min(
          (begin + i) / kDeviceAlignment * kDeviceAlignment + kDeviceAlignment,
          memory.bytes());
    }
    end = begin;
  }
  return 0;
}

absl::StatusOr<ValueId> RankExecutor::FindResident(
    std::string_view name) const {
  for (const Input& input : program_.inputs) {
    if (program_.value_name(input.value) != name) continue;
    if (input.role != InputRole::kData) return input.value;
    return Invalid("%{} is given at each step, it is no state", name);
  }
  return NotFound("the program has no input %{}", name);
}

absl::Status RankExecutor::SetState(std::string_view name,
                                    const Tensor& local) {
  ASYRA_RETURN_IF_ERROR(Ready());
  ASYRA_ASSIGN_OR_RETURN(ValueId value, FindResident(name));
  ASYRA_RETURN_IF_ERROR(CheckType(value, local.dtype(), local.shape()));
  if (options_.states != nullptr) return options_.states->Set(name, local);
  Tensor stored = Stored(value, local);
  device_->CopyToDevice(Address(value), stored.data(), stored.bytes(),
                        runner_->home());
  ASYRA_RETURN_IF_ERROR(runner_->home().Synchronize());
  return failure_.status();
}

absl::StatusOr<Tensor> RankExecutor::State(std::string_view name) {
  ASYRA_RETURN_IF_ERROR(Ready());
  ASYRA_ASSIGN_OR_RETURN(ValueId value, FindResident(name));
  WaitForOthers();
  return Read(value, Address(value));
}

std::vector<Executor::NamedInput> RankExecutor::inputs() const {
  std::vector<NamedInput> inputs;
  for (const Input& input : program_.inputs) {
    if (input.role != InputRole::kData) continue;
    inputs.push_back({program_.value_name(input.value), Local(input.value)});
  }
  return inputs;
}

absl::Status RankExecutor::Step(absl::Span<const Tensor> inputs) {
  ASYRA_RETURN_IF_ERROR(Start(inputs));
  return Finish();
}

absl::Status RankExecutor::Start(absl::Span<const Tensor> inputs) {
  ASYRA_RETURN_IF_ERROR(ReadyForStep());
  ASYRA_RETURN_IF_ERROR(BeginStep(CheckInputs(inputs)));
  EnqueueInputs(inputs);
  RunStep();
  running_ = true;
  return absl::OkStatus();
}

absl::Status RankExecutor::CopyInputs(absl::Span<const Tensor> inputs) {
  ASYRA_RETURN_IF_ERROR(ReadyForStep());
  absl::Status status = CheckInputs(inputs);
  if (status.ok()) {
    WaitForOthers();
    EnqueueInputs(inputs);
    status = runner_->home().Synchronize(WorldCheck());
    in_flight_.clear();
  }
  if (!status.ok()) failure_.Report(status);
  has_inputs_ = failure_.status().ok();
  return failure_.status();
}

absl::Status RankExecutor::StartCopied() {
  ASYRA_RETURN_IF_ERROR(ReadyForStep());
  if (!has_inputs_) return Invalid("no inputs were copied");
  ASYRA_RETURN_IF_ERROR(BeginStep(absl::OkStatus()));
  RunStep();
  running_ = true;
  return absl::OkStatus();
}

absl::Status RankExecutor::Finish() {
  if (!running_) return failure_.status();
  running_ = false;
  absl::Status status = runner_->home().Synchronize(WorldCheck());
  in_flight_.clear();
  if (!status.ok()) failure_.Report(status);
  return failure_.status();
}

absl::StatusOr<int64_t> RankExecutor::Enqueue(absl::Span<const Tensor> inputs) {
  ASYRA_RETURN_IF_ERROR(ReadyForStep());
  ASYRA_RETURN_IF_ERROR(MakeQueue());
  absl::Status status = queue_->Begin(WorldCheck());
  if (status.ok()) status = CheckInputs(inputs);
  ASYRA_RETURN_IF_ERROR(BeginStep(status));
  size_t next = 0;
  for (const Input& input : program_.inputs) {
    if (input.role != InputRole::kData) continue;
    queue_->CopyInput(next, Stored(input.value, inputs[next]).data());
    ++next;
  }
  RunStep();
  return EndStep();
}

absl::StatusOr<int64_t> RankExecutor::EnqueueViews(
    absl::Span<const DeviceView> inputs, void* stream) {
  ASYRA_RETURN_IF_ERROR(ReadyForStep());
  ASYRA_RETURN_IF_ERROR(MakeQueue());
  absl::Status status = queue_->Begin(WorldCheck());
  if (status.ok()) status = CheckInputs(inputs);
  if (status.ok()) status = WaitForCaller(stream);
  ASYRA_RETURN_IF_ERROR(BeginStep(status));
  size_t next = 0;
  for (const Input& input : program_.inputs) {
    if (input.role != InputRole::kData) continue;
    const DeviceView& view = inputs[next++];
    void* to = Address(input.value);
    if (view.data == to) continue;
    if (in_halves_[input.value]) {
      device_->StoreInHalves(to, view.data, NumElements(view.shape),
                             runner_->home());
    } else {
      device_->Copy(to, view.data, view.bytes(), runner_->home());
    }
  }
  RunStep();
  if (caller_ != nullptr) {
    runner_->home().Record(*has_read_);
    caller_->Wait(*has_read_);
  }
  return EndStep();
}

std::vector<std::string_view> RankExecutor::scalars() const {
  std::vector<std::string_view> names;
  for (size_t output : scalars_) {
    names.push_back(program_.output_name(program_.outputs[output]));
  }
  return names;
}

absl::StatusOr<std::vector<double>> RankExecutor::Await(int64_t step) {
  ASYRA_RETURN_IF_ERROR(Ready());
  if (queue_ == nullptr) return Invalid("no step was enqueued");
  absl::Status status = queue_->Await(step, WorldCheck());
  if (absl::IsInvalidArgument(status)) return status;  // no such step
  if (!status.ok()) failure_.Report(status);
  ASYRA_RETURN_IF_ERROR(failure_.status());
  std::vector<double> values;
  for (size_t i = 0; i < scalars_.size(); ++i) {
    Type local = Local(program_.outputs[scalars_[i]].value);
    auto* data = static_cast<const std::byte*>(queue_->Scalar(step, i));
    values.push_back(
        Tensor::View(local.dtype, local.shape(), data, nullptr).Get(0));
  }
  return values;
}

absl::StatusOr<double> RankExecutor::SecondsOf(int64_t step) const {
  if (queue_ == nullptr) return Invalid("no step was enqueued");
  ASYRA_ASSIGN_OR_RETURN(double us, queue_->MicrosecondsOf(step));
  return us * 1e-6;
}

DeviceView RankExecutor::ViewOf(ValueId value, void* address) const {
  Type local = Local(value);
  return {address, local.dtype, local.shape(), device_->name()};
}

absl::StatusOr<DeviceView> RankExecutor::InputView(
    std::string_view name) const {
  ASYRA_RETURN_IF_ERROR(Ready());
  for (const Input& input : program_.inputs) {
    if (program_.value_name(input.value) != name) continue;
    if (input.role != InputRole::kData) break;
    ASYRA_RETURN_IF_ERROR(CheckPlain(input.value));
    return ViewOf(input.value, Address(input.value));
  }
  return NotFound("no data input is called '{}'", name);
}

absl::StatusOr<DeviceView> RankExecutor::OutputView(
    std::string_view name) const {
  ASYRA_RETURN_IF_ERROR(Ready());
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    if (program_.output_name(program_.outputs[i]) != name) continue;
    ASYRA_RETURN_IF_ERROR(CheckPlain(program_.outputs[i].value));
    return ViewOf(program_.outputs[i].value,
                  runner_->AddressOf(plan_.outputs[i].at));
  }
  return NotFound("no output is called '{}'", name);
}

absl::StatusOr<Tensor> RankExecutor::Output(size_t index) {
  ASYRA_RETURN_IF_ERROR(Ready());
  if (index >= program_.outputs.size()) {
    return Invalid("output {} of a program with {}", index,
                   program_.outputs.size());
  }
  if (!has_outputs_) return Invalid("no step has run");
  return Read(program_.outputs[index].value,
              runner_->AddressOf(plan_.outputs[index].at));
}

std::vector<OpTime> RankExecutor::Profile() const {
  return runner_ == nullptr ? std::vector<OpTime>() : runner_->Profile();
}

absl::Status RankExecutor::Ready() const {
  if (!failure_.status().ok()) return failure_.status();
  if (runner_ == nullptr) return Invalid("Prepare was not called");
  return absl::OkStatus();
}

absl::Status RankExecutor::ReadyForStep() const {
  ASYRA_RETURN_IF_ERROR(Ready());
  if (running_) return Invalid("a step is running already");
  return absl::OkStatus();
}

absl::Status RankExecutor::CheckWorld(double waited_s) const {
  absl::Status world =
      world_ == nullptr ? absl::OkStatus() : world_->Check(waited_s);
  return failure_.happened() ? failure_.status() : world;
}

WaitCheck RankExecutor::WorldCheck() const {
  return [this](double waited_s) { return CheckWorld(waited_s); };
}

absl::Status RankExecutor::CheckType(ValueId value, DType dtype,
                                     absl::Span<const int64_t> shape) const {
  Type local = Local(value);
  if (dtype == local.dtype && shape == absl::MakeConstSpan(local.shape())) {
    return absl::OkStatus();
  }
  return Invalid("input %{} is {}, a rank of the program takes {}",
                 program_.value_name(value), Describe(dtype, shape),
                 Describe(local.dtype, local.shape()));
}

template <typename T>
absl::Status RankExecutor::CheckInputs(absl::Span<const T> inputs) const {
  size_t next = 0;
  for (const Input& input : program_.inputs) {
    if (input.role != InputRole::kData) continue;
    if (next < inputs.size()) {
      const T& given = inputs[next];
      ASYRA_RETURN_IF_ERROR(
          CheckType(input.value, TypeOf(given), ShapeOf(given)));
    }
    ++next;
  }
  if (next == inputs.size()) return absl::OkStatus();
  return Invalid("{} inputs are given, the program takes {}", inputs.size(),
                 next);
}

absl::Status RankExecutor::BeginStep(const absl::Status& checked) {
  // A collective may still end well after another rank has given up.
  absl::Status status = checked.ok() ? CheckWorld(0) : checked;
  if (!status.ok()) {
    failure_.Report(status);
    return status;
  }
  if (world_ != nullptr) world_->BeginStep();
  WaitForOthers();
  return absl::OkStatus();
}

void RankExecutor::EnqueueInputs(absl::Span<const Tensor> inputs) {
  size_t next = 0;
  for (const Input& input : program_.inputs) {
    if (input.role != InputRole::kData) continue;
    Tensor tensor = Stored(input.value, inputs[next++]);
    device_->CopyToDevice(Address(input.value), tensor.data(), tensor.bytes(),
                          runner_->home());
    if (in_halves_[input.value]) in_flight_.push_back(std::move(tensor));
  }
}

void RankExecutor::RunStep() {
  has_inputs_ = false;
  runner_->EnqueueStep();
  EnqueueOutputs();
  MarkUse();
  has_outputs_ = true;
}

// Scalars are read before another executor of the set uses the arena.
int64_t RankExecutor::EndStep() {
  int64_t step = queue_->End();
  MarkUse();
  return step;
}

absl::Status RankExecutor::MakeQueue() {
  if (queue_ != nullptr) return absl::OkStatus();
  std::vector<StepQueue::Value> inputs, scalars;
  for (const Input& input : program_.inputs) {
    if (input.role != InputRole::kData) continue;
    inputs.push_back({Address(input.value), Local(input.value).bytes()});
  }
  for (size_t i : scalars_) {
    const OutputPlacement& output = plan_.outputs[i];
    scalars.push_back({runner_->AddressOf(output.at), output.at.bytes});
  }
  ASYRA_ASSIGN_OR_RETURN(
      queue_, StepQueue::Create(*device_, runner_->home(), std::move(inputs),
                                std::move(scalars)));
  return absl::OkStatus();
}

absl::Status RankExecutor::WaitForCaller(void* stream) {
  if (stream == nullptr && device_->name() == "cpu") return absl::OkStatus();
  if (caller_ == nullptr || caller_handle_ != stream) {
    ASYRA_ASSIGN_OR_RETURN(caller_, device_->WrapStream(stream, &failure_));
    caller_handle_ = stream;
  }
  if (given_ == nullptr) {
    given_ = device_->CreateEvent(/*timed=*/false);
    has_read_ = device_->CreateEvent(/*timed=*/false);
  }
  caller_->Record(*given_);
  runner_->home().Wait(*given_);
  return absl::OkStatus();
}

void RankExecutor::EnqueueOutputs() {
  Stream& home = runner_->home();
  for (bool staged : {true, false}) {
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const OutputPlacement& output = plan_.outputs[i];
      void* at = runner_->AddressOf(output.at);
      if (staged && output.staged) {
        device_->Copy(at, Address(program_.outputs[i].value), output.at.bytes,
                      home);
      }
      if (!staged && output.copied_to_state) {
        device_->Copy(Address(program_.outputs[i].alias), at, output.at.bytes,
                      home);
      }
    }
  }
}

absl::StatusOr<Tensor> RankExecutor::Read(ValueId value, const void* address) {
  Type local = Local(value);
  Tensor tensor(local.dtype, local.shape());
  device_->CopyToHost(tensor.mutable_data(), address, tensor.bytes(),
                      runner_->home());
  ASYRA_RETURN_IF_ERROR(runner_->home().Synchronize());
  ASYRA_RETURN_IF_ERROR(failure_.status());
  return in_halves_[value] ? LoadedFromHalves(tensor) : tensor;
}

Tensor RankExecutor::Stored(ValueId value, const Tensor& plain) const {
  return in_halves_[value] ? StoredInHalves(plain) : plain;
}

absl::Status RankExecutor::CheckPlain(ValueId value) const {
  if (!in_halves_[value]) return absl::OkStatus();
  return Invalid("%{} is stored in halves, it cannot be seen on the device",
                 program_.value_name(value));
}

void RankExecutor::WaitForOthers() {
  if (options_.states == nullptr) return;
  runner_->home().Wait(options_.states->last_use());
}

void RankExecutor::MarkUse() {
  if (options_.states == nullptr) return;
  runner_->home().Record(options_.states->last_use());
}

}  // namespace asyra
