#include "executor/executor.h"

#include <algorithm>
#include <optional>
#include <set>

#include "executor/comm/agreement.h"
#include "executor/step_runner.h"
#include "ir/body.h"
#include "ir/overlap.h"
#include "ir/parser.h"
#include "ir/shard_reader.h"
#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/verifier.h"

namespace asyra {
namespace {

constexpr int64_t kGuardBytes = 64;  // with debug_memory
// Content of memory before it is written.
constexpr uint8_t kUnused = 0xa5;
constexpr int64_t kMeasuredBytes = int64_t{1} << 20;  // at a time

std::string Describe(DType dtype, absl::Span<const int64_t> shape) {
  return fmt::format("{}{}", ToString(dtype), ShapeToString(shape));
}

class RankExecutor : public Executor {
 public:
  // `split` are labels of ops of which the program has the parts.
  RankExecutor(Program program, std::vector<std::string> split)
      : program_(std::move(program)), split_(std::move(split)) {}

  ~RankExecutor() override {
    // Streams finish enqueued work before memory is freed.
    if (runner_ != nullptr) Finish().IgnoreError();
    if (world_ != nullptr) world_->Drain();
  }

  const Program& program() const override { return program_; }

  absl::Status Prepare(Device& device, Communicator* world,
                       const WeightStore* weights,
                       const ExecutorOptions& options) override {
    if (runner_ != nullptr) return Invalid("Prepare is called twice");
    world_ = world;
    absl::Status status = PrepareAll(device, weights, options);
    // The other ranks would wait for this rank without end.
    if (!status.ok()) failure_.Report(status);
    return status;
  }

  std::vector<std::string> fallback_ops() const override {
    return runner_->fallback_ops();
  }
  std::vector<std::string> fallback_collectives() const override {
    return runner_->fallback_collectives();
  }
  std::vector<std::string> split_fusions() const override {
    std::vector<std::string> all = runner_->split_fusions();
    all.insert(all.end(), split_.begin(), split_.end());
    return all;
  }
  MemoryUse memory() const override { return memory_use_; }

  absl::StatusOr<MemoryUse> MeasureMemory() override {
    ASYRA_RETURN_IF_ERROR(Ready());
    if (running_) return Invalid("a step is running");
    MemoryUse used;
    int64_t* parts[] = {&used.arena_bytes, &used.resident_bytes,
                        &used.workspace_bytes};
    for (size_t i = 0; i < memory_.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(*parts[i], UsedOf(*memory_[i]));
    }
    used.device_bytes = device_->BytesInUse();
    return used;
  }

  absl::Status SetState(std::string_view name, const Tensor& local) override {
    ASYRA_RETURN_IF_ERROR(Ready());
    ASYRA_ASSIGN_OR_RETURN(ValueId value, FindResident(name));
    ASYRA_RETURN_IF_ERROR(CheckType(value, local));
    device_->CopyToDevice(Address(value), local.data(), local.bytes(),
                          runner_->home());
    ASYRA_RETURN_IF_ERROR(runner_->home().Synchronize());
    return failure_.status();
  }

  absl::StatusOr<Tensor> State(std::string_view name) override {
    ASYRA_RETURN_IF_ERROR(Ready());
    ASYRA_ASSIGN_OR_RETURN(ValueId value, FindResident(name));
    return Read(value, Address(value));
  }

  std::vector<NamedInput> inputs() const override {
    std::vector<NamedInput> inputs;
    for (const Input& input : program_.inputs) {
      if (input.role != InputRole::kData) continue;
      inputs.push_back({program_.value_name(input.value), Local(input.value)});
    }
    return inputs;
  }

  absl::Status Step(absl::Span<const Tensor> inputs) override {
    ASYRA_RETURN_IF_ERROR(Start(inputs));
    return Finish();
  }

  absl::Status Start(absl::Span<const Tensor> inputs) override {
    ASYRA_RETURN_IF_ERROR(Ready());
    if (running_) return Invalid("a step is running already");
    absl::Status status = CheckInputs(inputs);
    // A collective may still end well after another rank has given up.
    if (status.ok()) status = CheckWorld(0);
    if (!status.ok()) {
      failure_.Report(status);
      return status;
    }
    if (world_ != nullptr) world_->BeginStep();
    Stream& home = runner_->home();
    size_t next = 0;
    for (const Input& input : program_.inputs) {
      if (input.role != InputRole::kData) continue;
      const Tensor& tensor = inputs[next++];
      device_->CopyToDevice(Address(input.value), tensor.data(), tensor.bytes(),
                            home);
    }
    runner_->EnqueueStep();
    EnqueueOutputs();
    running_ = true;
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (!running_) return failure_.status();
    running_ = false;
    has_outputs_ = true;
    absl::Status status = runner_->home().Synchronize(
        [this](double waited_s) { return CheckWorld(waited_s); });
    if (!status.ok()) failure_.Report(status);
    return failure_.status();
  }

  absl::StatusOr<Tensor> Output(size_t index) override {
    ASYRA_RETURN_IF_ERROR(Ready());
    if (index >= program_.outputs.size()) {
      return Invalid("output {} of a program with {}", index,
                     program_.outputs.size());
    }
    if (!has_outputs_) return Invalid("no step has run");
    return Read(program_.outputs[index].value,
                runner_->AddressOf(plan_.outputs[index].at));
  }

  std::vector<OpTime> Profile() const override {
    return runner_ == nullptr ? std::vector<OpTime>() : runner_->Profile();
  }

 private:
  Type Local(ValueId value) const {
    return program_.type(value).Local(program_.mesh);
  }
  void* Address(ValueId value) const {
    return runner_->AddressOf(plan_.values[value]);
  }

  absl::Status PrepareAll(Device& device, const WeightStore* weights,
                          const ExecutorOptions& options) {
    device_ = &device;
    options_ = options;
    if (weights == nullptr) weights = program_.weights.get();
    ASYRA_RETURN_IF_ERROR(CheckSize());
    if (world_ != nullptr) {
      ASYRA_RETURN_IF_ERROR(
          CheckAgreement(*world_, AgreementsOf(program_, weights)));
    }
    ASYRA_RETURN_IF_ERROR(CheckWeights(weights));
    DefUse def_use(program_);
    HappensBefore order(program_, def_use);
    bool planned = program_.stage == Stage::kAllocated;
    int64_t guard = options.debug_memory && !planned ? kGuardBytes : 0;
    ASYRA_ASSIGN_OR_RETURN(plan_, PlanMemory(program_, order, def_use,
                                             {.alignment = kDeviceAlignment,
                                              .guard_bytes = guard}));
    sync_ = PlanSync(program_, order, def_use);
    ASYRA_ASSIGN_OR_RETURN(
        runner_, StepRunner::Create({program_, plan_, sync_, device, world_,
                                     rank(), options_, guard, &failure_}));
    ASYRA_RETURN_IF_ERROR(ReserveMemory());
    ASYRA_RETURN_IF_ERROR(FillResident(weights));
    // No rank begins a step before all are ready.
    if (world_ == nullptr) return absl::OkStatus();
    return world_->Exchange("ready").status();
  }

  absl::Status CheckWorld(double waited_s) const {
    absl::Status world =
        world_ == nullptr ? absl::OkStatus() : world_->Check(waited_s);
    return failure_.happened() ? failure_.status() : world;
  }

  int64_t rank() const { return world_ == nullptr ? 0 : world_->rank(); }

  absl::Status CheckSize() const {
    int64_t devices = program_.mesh.num_devices();
    int64_t ranks = world_ == nullptr ? 1 : world_->size();
    if (devices != ranks) {
      return Invalid("the program is for {} devices, {}, the world has {} {}",
                     devices, ToString(program_.mesh), ranks,
                     ranks == 1 ? "rank" : "ranks");
    }
    if (world_ != nullptr && world_->device() != device_->name()) {
      return Invalid("the communicator {} moves memory of {}, the device is {}",
                     world_->name(), world_->device(), device_->name());
    }
    return absl::OkStatus();
  }

  // Whether Prepare reads its data.
  bool IsFilled(const Input& input) const {
    return input.role == InputRole::kWeight ||
           (input.role == InputRole::kParam && !options_.params_are_set_later);
  }

  absl::Status CheckWeights(const WeightStore* weights) const {
    for (const Input& input : program_.inputs) {
      if (!IsFilled(input)) continue;
      const std::string& name = program_.value_name(input.value);
      const Tensor* data = weights == nullptr ? nullptr : weights->Find(name);
      if (data == nullptr) return NotFound("weight %{} has no data", name);
      ASYRA_RETURN_IF_ERROR(CheckStored(program_, input, *data));
    }
    return absl::OkStatus();
  }

  absl::Status ReserveMemory() {
    memory_use_ = {plan_.arena_bytes, plan_.resident_bytes,
                   runner_->workspace_bytes()};
    const std::pair<const char*, int64_t> parts[] = {
        {"the arena", memory_use_.arena_bytes},
        {"weights and state", memory_use_.resident_bytes},
        {"workspaces", memory_use_.workspace_bytes}};
    for (auto [what, bytes] : parts) {
      auto memory = device_->Allocate(bytes);
      if (!memory.ok()) return Annotate(memory.status(), what);
      memory_.push_back(*std::move(memory));
    }
    auto data = [this](size_t i) {
      return static_cast<std::byte*>(memory_[i]->data());
    };
    return runner_->Bind(data(0), data(1), data(2));
  }

  // Up to the last unit that differs from its initial content.
  absl::StatusOr<int64_t> UsedOf(const DeviceMemory& memory) {
    std::vector<uint8_t> bytes(std::min(memory.bytes(), kMeasuredBytes));
    for (int64_t end = memory.bytes(); end > 0;) {
      int64_t begin = (end - 1) / kMeasuredBytes * kMeasuredBytes;
      device_->CopyToHost(bytes.data(),
                          static_cast<std::byte*>(memory.data()) + begin,
                          end - begin, runner_->home());
      ASYRA_RETURN_IF_ERROR(runner_->home().Synchronize());
      for (int64_t i = end - begin; i-- > 0;) {
        if (bytes[i] == kUnused) continue;
        return std::min((begin + i) / kDeviceAlignment * kDeviceAlignment +
                            kDeviceAlignment,
                        memory.bytes());
      }
      end = begin;
    }
    return 0;
  }

  absl::Status FillResident(const WeightStore* weights) {
    Stream& home = runner_->home();
    // Also takes the pages from the system, before the first step.
    for (const auto& memory : memory_) {
      device_->Fill(memory->data(), kUnused, memory->bytes(), home);
    }
    for (const Input& input : program_.inputs) {
      if (IsUpdated(input)) {
        device_->Fill(Address(input.value), 0, Local(input.value).bytes(),
                      home);
      }
      if (!IsFilled(input)) continue;
      const std::string& name = program_.value_name(input.value);
      absl::StatusOr<Tensor> shard =
          ReadShard(*weights->Find(name), program_.type(input.value),
                    program_.mesh, rank());
      if (!shard.ok()) {
        return Annotate(shard.status(), fmt::format("weight %{}", name));
      }
      device_->CopyToDevice(Address(input.value), shard->data(), shard->bytes(),
                            home);
      ASYRA_RETURN_IF_ERROR(home.Synchronize());
    }
    runner_->EnqueueConstants();
    ASYRA_RETURN_IF_ERROR(home.Synchronize());
    return failure_.status();
  }

  absl::Status Ready() const {
    if (!failure_.status().ok()) return failure_.status();
    if (runner_ == nullptr) return Invalid("Prepare was not called");
    return absl::OkStatus();
  }

  absl::Status CheckType(ValueId value, const Tensor& tensor) const {
    Type local = Local(value);
    if (tensor.dtype() == local.dtype && tensor.shape() == local.shape()) {
      return absl::OkStatus();
    }
    return Invalid("input %{} is {}, a rank of the program takes {}",
                   program_.value_name(value),
                   Describe(tensor.dtype(), tensor.shape()),
                   Describe(local.dtype, local.shape()));
  }

  absl::Status CheckInputs(absl::Span<const Tensor> inputs) const {
    size_t next = 0;
    for (const Input& input : program_.inputs) {
      if (input.role != InputRole::kData) continue;
      if (next < inputs.size()) {
        ASYRA_RETURN_IF_ERROR(CheckType(input.value, inputs[next]));
      }
      ++next;
    }
    if (next == inputs.size()) return absl::OkStatus();
    return Invalid("{} inputs are given, the program takes {}", inputs.size(),
                   next);
  }

  absl::StatusOr<ValueId> FindResident(std::string_view name) const {
    for (const Input& input : program_.inputs) {
      if (program_.value_name(input.value) != name) continue;
      if (input.role != InputRole::kData) return input.value;
      return Invalid("%{} is given at each step, it is no state", name);
    }
    return NotFound("the program has no input %{}", name);
  }

  void EnqueueOutputs() {
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

  absl::StatusOr<Tensor> Read(ValueId value, const void* address) {
    Type local = Local(value);
    Tensor tensor(local.dtype, local.shape());
    device_->CopyToHost(tensor.mutable_data(), address, tensor.bytes(),
                        runner_->home());
    ASYRA_RETURN_IF_ERROR(runner_->home().Synchronize());
    ASYRA_RETURN_IF_ERROR(failure_.status());
    return tensor;
  }

  Program program_;
  std::vector<std::string> split_;
  Device* device_ = nullptr;
  Communicator* world_ = nullptr;
  ExecutorOptions options_;
  MemoryPlan plan_;
  SyncPlan sync_;
  MemoryUse memory_use_;
  Failure failure_{[this](const absl::Status& status) {
    if (world_ != nullptr) world_->Abort(status);
  }};
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::unique_ptr<StepRunner> runner_;
  bool running_ = false;
  bool has_outputs_ = false;
};

// The position of `name`. Error: it is not there, unlike others.
absl::StatusOr<size_t> IndexOf(std::string_view what, std::string_view name,
                               absl::Span<const std::string_view> names) {
  auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return found - names.begin();
  return NotFound("no {} is called '{}'; there are: {}", what, name,
                  fmt::join(names, ", "));
}

}  // namespace

std::vector<std::string_view> Executor::outputs() const {
  std::vector<std::string_view> names;
  for (const asyra::Output& output : program().outputs) {
    names.push_back(program().output_name(output));
  }
  return names;
}

absl::Status Executor::StepByName(absl::Span<const NamedTensor> inputs) {
  std::vector<std::string_view> names;
  for (const NamedInput& input : this->inputs()) names.push_back(input.name);
  std::vector<Tensor> ordered(names.size());
  std::vector<bool> given(names.size(), false);
  for (const auto& [name, tensor] : inputs) {
    ASYRA_ASSIGN_OR_RETURN(size_t index, IndexOf("input", name, names));
    if (given[index]) return Invalid("input %{} is given twice", name);
    given[index] = true;
    ordered[index] = tensor;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (!given[i]) return Invalid("input %{} is not given", names[i]);
  }
  return Step(ordered);
}

absl::StatusOr<Tensor> Executor::Output(std::string_view name) {
  ASYRA_ASSIGN_OR_RETURN(size_t index, IndexOf("output", name, outputs()));
  return Output(index);
}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Load(Program program) {
  ASYRA_RETURN_IF_ERROR(Verify(program));
  // No device carries out chunk plans: an overlap is its ops, one after the
  // other.
  std::set<std::string> split;
  for (const Op& op : program.ops) {
    if (IsOverlap(*op.def)) split.insert(OpLabel(*op.def, op.attrs));
  }
  ASYRA_ASSIGN_OR_RETURN(program, InlineOverlaps(program));
  return std::make_unique<RankExecutor>(
      std::move(program), std::vector<std::string>(split.begin(), split.end()));
}

absl::StatusOr<std::unique_ptr<Executor>> Executor::LoadFile(
    const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  absl::StatusOr<Program> program = ParseProgram(text);
  if (!program.ok()) return Annotate(program.status(), path);
  ASYRA_RETURN_IF_ERROR(ReadWeightsBeside(path, &*program));
  auto executor = Load(*std::move(program));
  if (!executor.ok()) return Annotate(executor.status(), path);
  return executor;
}

}  // namespace asyra
