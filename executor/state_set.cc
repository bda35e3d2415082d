#include "executor/state_set.h"

#include "ir/halves.h"
#include "ir/happens_before.h"
#include "ir/support/round_up.h"
#include "ir/support/short_list.h"
#include "ir/support/status.h"

namespace asyra {

absl::StatusOr<std::shared_ptr<StateSet>> StateSet::Create(Device& device) {
  std::shared_ptr<StateSet> set(new StateSet(device));
  set->last_use_ = device.CreateEvent(/*timed=*/false);
  ASYRA_ASSIGN_OR_RETURN(
      set->stream_,
      device.CreateStream("states", StreamUse::kCompute, &set->failure_));
  return set;
}

StateSet::~StateSet() {
  if (stream_ != nullptr) stream_->Synchronize().IgnoreError();
}

int64_t StateSet::bytes() const {
  int64_t bytes = arena_bytes();
  for (const auto& memory : memory_) bytes += memory->bytes();
  return bytes;
}

const StateSet::State* StateSet::Find(std::string_view name) const {
  auto found = states_.find(name);
  return found == states_.end() ? nullptr : &found->second;
}

absl::StatusOr<StateSet::State*> StateSet::FindOrList(std::string_view name) {
  auto found = states_.find(name);
  if (found != states_.end()) return &found->second;
  std::vector<std::string> names;
  for (const auto& [known, state] : states_) names.push_back(known);
  return NotFound("there is no state %{}; there are: {}", name,
                  ShortList(names));
}

absl::StatusOr<Tensor> StateSet::Get(std::string_view name) {
  ASYRA_ASSIGN_OR_RETURN(State * state, FindOrList(name));
  Type local = state->type.Local(mesh_);
  Tensor tensor(local.dtype, local.shape());
  stream_->Wait(*last_use_);
  device_.CopyToHost(tensor.mutable_data(), state->data, tensor.bytes(),
                     *stream_);
  ASYRA_RETURN_IF_ERROR(stream_->Synchronize());
  ASYRA_RETURN_IF_ERROR(failure_.status());
  return state->in_halves ? LoadedFromHalves(tensor) : tensor;
}

absl::Status StateSet::Set(std::string_view name, const Tensor& local) {
  Tensor stored = local;  // until it is copied
  return Write(name, local.dtype(), local.shape(), [&](const State& state) {
    if (state.in_halves) stored = StoredInHalves(local);
    device_.CopyToDevice(state.data, stored.data(), stored.bytes(), *stream_);
  });
}

absl::Status StateSet::Set(std::string_view name, const DeviceView& local) {
  return Write(name, local.dtype, local.shape, [&](const State& state) {
    if (state.in_halves) {
      device_.StoreInHalves(state.data, local.data, NumElements(local.shape),
                            *stream_);
    } else {
      device_.CopyToDevice(state.data, local.data, local.bytes(), *stream_);
    }
  });
}

template <typename Copy>
absl::Status StateSet::Write(std::string_view name, DType dtype,
                             const Shape& shape, Copy copy) {
  ASYRA_ASSIGN_OR_RETURN(State * state, FindOrList(name));
  Type type = state->type.Local(mesh_);
  if (dtype != type.dtype || shape != type.shape()) {
    return Invalid("state %{} is {}{} on a rank, {}{} is given", name,
                   ToString(type.dtype), ShapeToString(type.shape()),
                   ToString(dtype), ShapeToString(shape));
  }
  stream_->Wait(*last_use_);
  copy(*state);
  stream_->Record(*last_use_);
  ASYRA_RETURN_IF_ERROR(stream_->Synchronize());
  state->is_set = true;
  return failure_.status();
}

absl::Status StateSet::Clear(absl::Span<const std::string> names) {
  stream_->Wait(*last_use_);
  for (const std::string& name : names) {
    ASYRA_ASSIGN_OR_RETURN(State * state, FindOrList(name));
    device_.Fill(state->data, 0, LocalBytes(state->type, mesh_), *stream_);
    state->is_set = true;
  }
  stream_->Record(*last_use_);
  return failure_.status();
}

absl::Status StateSet::ReserveArena(int64_t bytes) {
  if (arena_ != nullptr) return Invalid("ReserveArena is called twice");
  return AllocateArena(bytes);
}

absl::Status StateSet::AllocateArena(int64_t bytes) {
  arena_ = nullptr;  // there may not be room for both
  absl::StatusOr<std::unique_ptr<DeviceMemory>> memory =
      device_.Allocate(bytes);
  if (!memory.ok()) return Annotate(memory.status(), "the arena");
  arena_ = *std::move(memory);
  return Fill(*arena_);
}

absl::StatusOr<std::byte*> StateSet::TakeArena(int64_t bytes) {
  if (arena_ == nullptr || bytes == 0) return nullptr;
  if (arena_->bytes() < bytes && !arena_is_taken_) {
    ASYRA_RETURN_IF_ERROR(AllocateArena(bytes));
  }
  if (arena_->bytes() < bytes) return nullptr;
  arena_is_taken_ = true;
  return static_cast<std::byte*>(arena_->data());
}

absl::Status StateSet::CheckMesh(const Program& program) {
  if (first_program_.empty()) {
    first_program_ = program.name;
    mesh_ = program.mesh;
  }
  if (program.mesh == mesh_) return absl::OkStatus();
  return Invalid("@{} is for {}, @{}, whose states it shares, for {}",
                 program.name, ToString(program.mesh), first_program_,
                 ToString(mesh_));
}

absl::Status StateSet::Join(const Program& program) {
  ASYRA_RETURN_IF_ERROR(CheckMesh(program));
  std::vector<std::pair<const Input*, int64_t>> added;
  std::vector<bool> in_halves = ValuesInHalves(program);
  DefUse def_use(program);
  int64_t bytes = 0;
  for (const Input& input : program.inputs) {
    if (input.role == InputRole::kData) continue;
    const std::string& name = program.value_name(input.value);
    const Type& type = program.type(input.value);
    const State* known = Find(name);
    if (known == nullptr) {
      added.emplace_back(&input, bytes);
      bytes += RoundUp(LocalBytes(type, program.mesh), kDeviceAlignment);
    } else if (known->type != type) {
      return Invalid("%{} is {} in @{}, {} in @{}", name,
                     ToString(type, program.mesh), program.name,
                     ToString(known->type, mesh_), known->program);
    } else if (known->in_halves != in_halves[input.value] &&
               !def_use.uses[input.value].empty()) {
      return Invalid("%{} is stored in halves in @{}, but not in @{}", name,
                     known->in_halves ? known->program : program.name,
                     known->in_halves ? program.name : known->program);
    }
  }
  if (added.empty()) return absl::OkStatus();
  auto memory = device_.Allocate(bytes);
  if (!memory.ok()) return Annotate(memory.status(), "params and states");
  ASYRA_RETURN_IF_ERROR(Fill(**memory));
  for (auto [input, at] : added) {
    states_[program.value_name(input->value)] = {
        .program = program.name,
        .type = program.type(input->value),
        .role = input->role,
        .data = static_cast<std::byte*>((*memory)->data()) + at,
        .in_halves = in_halves[input->value]};
  }
  memory_.push_back(*std::move(memory));
  return absl::OkStatus();
}

absl::Status StateSet::Fill(DeviceMemory& memory) {
  device_.Fill(memory.data(), 0, memory.bytes(), *stream_);
  ASYRA_RETURN_IF_ERROR(stream_->Synchronize());
  return failure_.status();
}

void StateSet::MarkSet(std::string_view name) {
  auto found = states_.find(name);
  if (found != states_.end()) found->second.is_set = true;
}

}  // namespace asyra
