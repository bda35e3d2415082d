// The steps that a rank takes once: agree, choose kernels, reserve and fill
// memory.
#include <set>

#include "absl/algorithm/container.h"
#include "executor/comm/agreement.h"
#include "executor/rank_executor.h"
#include "ir/body.h"
#include "ir/halves.h"
#include "ir/overlap.h"
#include "ir/plans/fused_reduction.h"
#include "ir/printer.h"
#include "ir/support/status.h"
#include "ir/weights/shard_reader.h"

namespace asyra {
namespace {

constexpr int64_t kGuardBytes = 64;  // with debug_memory

}  // namespace

absl::Status RankExecutor::Prepare(Device& device, Communicator* world,
                                   const WeightStore* weights,
                                   const ExecutorOptions& options) {
  if (runner_ != nullptr) return Invalid("Prepare is called twice");
  world_ = world;
  absl::Status status = PrepareAll(device, weights, options);
  // The other ranks would wait for this rank without end.
  if (!status.ok()) failure_.Report(status);
  return status;
}

absl::Status RankExecutor::PrepareAll(Device& device,
                                      const WeightStore* weights,
                                      const ExecutorOptions& options) {
  device_ = &device;
  options_ = options;
  ASYRA_RETURN_IF_ERROR(CheckSize());
  ASYRA_RETURN_IF_ERROR(SplitOverlaps());
  outside_.assign(program_.values.size(), nullptr);
  in_halves_ = ValuesInHalves(program_);
  if (weights == nullptr) weights = program_.weights.get();
  if (world_ != nullptr) {
    ASYRA_RETURN_IF_ERROR(
        CheckAgreement(*world_, AgreementsOf(program_, weights)));
  }
  ASYRA_RETURN_IF_ERROR(JoinStates());
  ASYRA_RETURN_IF_ERROR(TakeMemoryOfCaller());
  ASYRA_RETURN_IF_ERROR(CheckWeights(weights));
  DefUse def_use(program_);
  HappensBefore order(program_, def_use);
  bool planned = program_.stage == Stage::kAllocated;
  int64_t guard = options.debug_memory && !planned ? kGuardBytes : 0;
  MemoryPlanOptions plan{.alignment = kDeviceAlignment, .guard_bytes = guard};
  for (size_t v = 0; v < outside_.size(); ++v) {
    if (outside_[v] != nullptr) plan.outside.push_back(static_cast<ValueId>(v));
  }
  ASYRA_ASSIGN_OR_RETURN(plan_, PlanMemory(program_, order, def_use, plan));
  sync_ = PlanSync(program_, order, def_use);
  ASYRA_ASSIGN_OR_RETURN(
      runner_,
      StepRunner::Create({program_, plan_, in_halves_, sync_, device, world_,
                          rank(), options_, guard, &failure_}));
  ASYRA_RETURN_IF_ERROR(ReserveMemory());
  ASYRA_RETURN_IF_ERROR(FillResident(weights));
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    const asyra::Output& output = program_.outputs[i];
    bool one = Local(output.value).num_elements() == 1;
    if (one && output.alias == kNoValue) scalars_.push_back(i);
  }
  // No rank begins a step before all are ready.
  if (world_ == nullptr) return absl::OkStatus();
  return world_->Exchange("ready").status();
}

absl::Status RankExecutor::CheckSize() const {
  int64_t devices = program_.mesh.num_devices();
  int64_t ranks = world_ == nullptr ? 1 : world_->size();
  if (devices != ranks) {
    return Invalid("the program is for {} {}, {}, the world has {} {}", devices,
                   devices == 1 ? "device" : "devices", ToString(program_.mesh),
                   ranks, ranks == 1 ? "rank" : "ranks");
  }
  if (world_ != nullptr && world_->device() != device_->name()) {
    return Invalid("the communicator {} moves memory of {}, the device is {}",
                   world_->name(), world_->device(), device_->name());
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> RankExecutor::RunsWhole(const Op& op) const {
  if (world_ == nullptr) return false;
  if (!IsOneKernel(op.attrs)) {
    return world_->CarriesPlans(op.attrs.Get<std::string>("transport"));
  }
  KernelUse use(program_, op, rank());
  CollectiveUse collective{
      use, program_.mesh.Group(rank(), AxesOf(*BodyOf(op.attrs))),
      static_cast<int>(&op - program_.ops.data()), ToString(program_, op)};
  ASYRA_ASSIGN_OR_RETURN(std::string obstacle,
                         world_->OneKernelObstacle(collective));
  return obstacle.empty();
}

absl::Status RankExecutor::SplitOverlaps() {
  std::set<std::string> labels;
  std::set<const Op*> split;
  for (const Op& op : program_.ops) {
    if (!IsOverlap(*op.def)) continue;
    ASYRA_ASSIGN_OR_RETURN(bool whole, RunsWhole(op));
    if (whole) continue;
    split.insert(&op);
    labels.insert(OpLabel(*op.def, op.attrs));
  }
  if (split.empty()) return absl::OkStatus();
  split_.assign(labels.begin(), labels.end());
  ASYRA_ASSIGN_OR_RETURN(program_, InlineOverlaps(program_, [&](const Op& op) {
                           return split.contains(&op);
                         }));
  return absl::OkStatus();
}

absl::Status RankExecutor::JoinStates() {
  if (options_.states == nullptr) return absl::OkStatus();
  StateSet& states = *options_.states;
  if (&states.device() != device_) {
    return Invalid("the states are on another device than the executor");
  }
  ASYRA_RETURN_IF_ERROR(states.Join(program_));
  for (const Input& input : program_.inputs) {
    if (!IsShared(input)) continue;
    outside_[input.value] = states.Find(program_.value_name(input.value))->data;
    memory_use_.shared_bytes += Local(input.value).bytes();
  }
  return absl::OkStatus();
}

absl::StatusOr<ValueId> RankExecutor::FindForCaller(
    std::string_view name) const {
  for (const Input& input : program_.inputs) {
    if (program_.value_name(input.value) != name) continue;
    if (input.role == InputRole::kData) return input.value;
    return Invalid("%{} is a state: a StateSet places it", name);
  }
  for (const asyra::Output& output : program_.outputs) {
    if (program_.output_name(output) != name) continue;
    if (output.alias != kNoValue) {
      return Invalid("output '{}' replaces a state: a StateSet places it",
                     name);
    }
    for (const Op& op : program_.ops) {
      bool makes = absl::c_linear_search(op.results, output.value);
      if (!makes) continue;
      if (!op.def->is_view && !IsConstant(op)) return output.value;
      return Invalid("output '{}' is of the op {}, which writes nothing", name,
                     op.def->name);
    }
    return Invalid("output '{}' is an input", name);
  }
  return NotFound("no input or output is called '{}'", name);
}

absl::Status RankExecutor::TakeMemoryOfCaller() {
  for (const auto& [name, view] : options_.memory) {
    ASYRA_ASSIGN_OR_RETURN(ValueId value, FindForCaller(name));
    ASYRA_RETURN_IF_ERROR(CheckType(value, view.dtype, view.shape));
    auto address = reinterpret_cast<uintptr_t>(view.data);
    if (view.data == nullptr || address % kDeviceAlignment != 0) {
      return Invalid("memory of '{}' begins at {}, no multiple of {} bytes",
                     name, view.data, kDeviceAlignment);
    }
    if (outside_[value] != nullptr) {
      return Invalid("memory of '{}' is given twice", name);
    }
    outside_[value] = view.data;
  }
  return absl::OkStatus();
}

bool RankExecutor::IsFilled(const Input& input) const {
  if (IsShared(input) &&
      options_.states->Find(program_.value_name(input.value))->is_set) {
    return false;
  }
  return input.role == InputRole::kWeight ||
         (input.role == InputRole::kParam && !options_.params_are_set_later);
}

absl::Status RankExecutor::CheckWeights(const WeightStore* weights) const {
  for (const Input& input : program_.inputs) {
    if (!IsFilled(input)) continue;
    const std::string& name = program_.value_name(input.value);
    const Tensor* data = weights == nullptr ? nullptr : weights->Find(name);
    if (data == nullptr) return NotFound("weight %{} has no data", name);
    ASYRA_RETURN_IF_ERROR(CheckStored(program_, input, *data));
  }
  return absl::OkStatus();
}

absl::Status RankExecutor::ReserveMemory() {
  std::byte* shared = nullptr;
  if (options_.states != nullptr) {
    ASYRA_ASSIGN_OR_RETURN(shared,
                           options_.states->TakeArena(plan_.arena_bytes));
  }
  memory_use_.arena_bytes = shared != nullptr ? 0 : plan_.arena_bytes;
  memory_use_.resident_bytes = plan_.resident_bytes;
  memory_use_.workspace_bytes = runner_->workspace_bytes();
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
  std::byte* arena = shared != nullptr ? shared : data(0);
  return runner_->Bind(arena, data(1), data(2), outside_);
}

absl::Status RankExecutor::FillResident(const WeightStore* weights) {
  Stream& home = runner_->home();
  WaitForOthers();
  // Also takes the pages from the system, before the first step.
  for (const auto& memory : memory_) {
    device_->Fill(memory->data(), kUnused, memory->bytes(), home);
  }
  for (const Input& input : program_.inputs) {
    if (IsUpdated(input) && !IsShared(input)) {
      device_->Fill(Address(input.value), 0, Local(input.value).bytes(), home);
    }
    if (!IsFilled(input)) continue;
    ASYRA_RETURN_IF_ERROR(FillWeight(input, weights));
  }
  runner_->EnqueueConstants();
  MarkUse();
  ASYRA_RETURN_IF_ERROR(home.Synchronize());
  return failure_.status();
}

absl::Status RankExecutor::FillWeight(const Input& input,
                                      const WeightStore* weights) {
  const std::string& name = program_.value_name(input.value);
  absl::StatusOr<Tensor> shard = ReadShard(
      *weights->Find(name), program_.type(input.value), program_.mesh, rank());
  if (!shard.ok()) {
    return Annotate(shard.status(), fmt::format("weight %{}", name));
  }
  Stream& home = runner_->home();
  Tensor stored = Stored(input.value, *shard);
  device_->CopyToDevice(Address(input.value), stored.data(), stored.bytes(),
                        home);
  ASYRA_RETURN_IF_ERROR(home.Synchronize());
  if (IsShared(input)) options_.states->MarkSet(name);
  return absl::OkStatus();
}

}  // namespace asyra
