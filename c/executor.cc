// Executors and their states from C.
#include "c/handles.h"
#include "ir/support/status.h"

namespace asyra::c {
namespace {

// A host tensor over the caller's buffer for a value called `name`.
absl::StatusOr<Tensor> View(std::string_view name, const Type& local,
                            const void* from, int64_t bytes) {
  if (local.bytes() != bytes) {
    return Invalid("%{} has {} bytes, {} are given", name, local.bytes(),
                   bytes);
  }
  return Tensor::View(local.dtype, local.shape(),
                      static_cast<const std::byte*>(from), /*owner=*/nullptr);
}

absl::StatusOr<size_t> CheckOutput(const Executor& executor, int32_t index) {
  size_t count = executor.program().outputs.size();
  if (index >= 0 && static_cast<size_t>(index) < count) return index;
  return absl::OutOfRangeError(fmt::format("output {} of {}", index, count));
}

absl::StatusOr<std::unique_ptr<asyra_states>> CreateStates(asyra_rank& rank) {
  auto made = std::make_unique<asyra_states>();
  ASYRA_ASSIGN_OR_RETURN(made->states, StateSet::Create(*rank.device));
  return made;
}

absl::StatusOr<std::unique_ptr<asyra_executor>> Create(
    asyra_rank& rank, const asyra_program& program, asyra_states* states) {
  auto made = std::make_unique<asyra_executor>();
  ASYRA_ASSIGN_OR_RETURN(made->executor, Executor::Load(program.program));
  ExecutorOptions options;
  if (states != nullptr) options.states = states->states;
  ASYRA_RETURN_IF_ERROR(
      made->executor->Prepare(*rank.device, rank.world, nullptr, options));
  made->inputs = made->executor->inputs();
  return made;
}

absl::Status Step(asyra_executor& executor, const void* const* inputs) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> tensors,
                         TensorsOf(executor.inputs, inputs));
  return executor.executor->Step(tensors);
}

absl::Status Enqueue(asyra_executor& executor, void* const* inputs,
                     void* stream, int64_t* number) {
  std::vector<DeviceView> views;
  for (size_t i = 0; i < executor.inputs.size(); ++i) {
    const auto& [name, local] = executor.inputs[i];
    if (inputs == nullptr || inputs[i] == nullptr) {
      return Invalid("the memory of input {}, %{}, is NULL", i, name);
    }
    views.push_back({inputs[i], local.dtype, local.shape()});
  }
  ASYRA_ASSIGN_OR_RETURN(int64_t step,
                         executor.executor->EnqueueViews(views, stream));
  if (number != nullptr) *number = step;
  return absl::OkStatus();
}

absl::Status OutputInfo(const Executor& executor, int32_t index,
                        asyra_tensor_info* info) {
  ASYRA_ASSIGN_OR_RETURN(size_t at, CheckOutput(executor, index));
  const Program& program = executor.program();
  return FillInfo(program.output_name(program.outputs[at]),
                  program.type(program.outputs[at].value).Local(program.mesh),
                  info);
}

absl::Status OutputData(const Executor& executor, int32_t index, void** data) {
  ASYRA_ASSIGN_OR_RETURN(size_t at, CheckOutput(executor, index));
  ASYRA_ASSIGN_OR_RETURN(DeviceView view,
                         executor.OutputView(executor.outputs()[at]));
  *data = view.data;
  return absl::OkStatus();
}

absl::Status InputData(const asyra_executor& executor, int32_t index,
                       void** data) {
  asyra_tensor_info info = {.size = sizeof(info)};
  ASYRA_RETURN_IF_ERROR(FillInfo(executor.inputs, index, &info));
  ASYRA_ASSIGN_OR_RETURN(DeviceView view, executor.executor->InputView(
                                              executor.inputs[index].name));
  *data = view.data;
  return absl::OkStatus();
}

absl::Status ReadOutput(Executor& executor, int32_t index, void* to,
                        int64_t bytes) {
  ASYRA_ASSIGN_OR_RETURN(size_t at, CheckOutput(executor, index));
  return CopyOut(executor.Output(at), to, bytes);
}

absl::Status SetState(Executor& executor, const char* name, const void* from,
                      int64_t bytes) {
  const Program& program = executor.program();
  ValueId value = program.FindValue(name);
  if (value == kNoValue) return NotFound("the program has no input %{}", name);
  ASYRA_ASSIGN_OR_RETURN(
      Tensor tensor,
      View(name, program.type(value).Local(program.mesh), from, bytes));
  return executor.SetState(name, tensor);
}

absl::Status SetIn(StateSet& states, const char* name, const void* from,
                   int64_t bytes) {
  const StateSet::State* state = states.Find(name);
  if (state == nullptr) return NotFound("there is no state %{}", name);
  ASYRA_ASSIGN_OR_RETURN(
      Tensor tensor, View(name, state->type.Local(states.mesh()), from, bytes));
  return states.Set(name, tensor);
}

}  // namespace
}  // namespace asyra::c

using asyra::c::Guarded;
using asyra::c::Make;

asyra_status asyra_states_create(asyra_rank* rank, asyra_states** states) {
  return Make({{"rank", rank}, {"states", states}}, states,
              [&] { return asyra::c::CreateStates(*rank); });
}

asyra_status asyra_states_get(asyra_states* states, const char* name, void* to,
                              int64_t bytes) {
  return Guarded({{"states", states}, {"name", name}, {"to", to}}, [&] {
    return asyra::c::CopyOut(states->states->Get(name), to, bytes);
  });
}

asyra_status asyra_states_set(asyra_states* states, const char* name,
                              const void* from, int64_t bytes) {
  return Guarded({{"states", states}, {"name", name}, {"from", from}}, [&] {
    return asyra::c::SetIn(*states->states, name, from, bytes);
  });
}

void asyra_states_free(asyra_states* states) { delete states; }

asyra_status asyra_executor_create(asyra_rank* rank,
                                   const asyra_program* program,
                                   asyra_states* states,
                                   asyra_executor** executor) {
  return Make({{"rank", rank}, {"program", program}, {"executor", executor}},
              executor,
              [&] { return asyra::c::Create(*rank, *program, states); });
}

asyra_status asyra_executor_input(const asyra_executor* executor, int32_t index,
                                  asyra_tensor_info* info) {
  return Guarded({{"executor", executor}, {"info", info}}, [&] {
    return asyra::c::FillInfo(executor->inputs, index, info);
  });
}

asyra_status asyra_executor_output(const asyra_executor* executor,
                                   int32_t index, asyra_tensor_info* info) {
  return Guarded({{"executor", executor}, {"info", info}}, [&] {
    return asyra::c::OutputInfo(*executor->executor, index, info);
  });
}

asyra_status asyra_executor_step(asyra_executor* executor,
                                 const void* const* inputs) {
  return Guarded({{"executor", executor}},
                 [&] { return asyra::c::Step(*executor, inputs); });
}

asyra_status asyra_executor_enqueue(asyra_executor* executor,
                                    void* const* inputs, void* stream,
                                    int64_t* number) {
  return Guarded({{"executor", executor}}, [&] {
    return asyra::c::Enqueue(*executor, inputs, stream, number);
  });
}

asyra_status asyra_executor_await(asyra_executor* executor, int64_t number) {
  return Guarded({{"executor", executor}},
                 [&] { return executor->executor->Await(number).status(); });
}

asyra_status asyra_executor_input_data(const asyra_executor* executor,
                                       int32_t index, void** data) {
  return Guarded({{"executor", executor}, {"data", data}},
                 [&] { return asyra::c::InputData(*executor, index, data); });
}

asyra_status asyra_executor_output_data(const asyra_executor* executor,
                                        int32_t index, void** data) {
  return Guarded({{"executor", executor}, {"data", data}}, [&] {
    return asyra::c::OutputData(*executor->executor, index, data);
  });
}

asyra_status asyra_executor_read_output(asyra_executor* executor, int32_t index,
                                        void* to, int64_t bytes) {
  return Guarded({{"executor", executor}, {"to", to}}, [&] {
    return asyra::c::ReadOutput(*executor->executor, index, to, bytes);
  });
}

asyra_status asyra_executor_get_state(asyra_executor* executor,
                                      const char* name, void* to,
                                      int64_t bytes) {
  return Guarded({{"executor", executor}, {"name", name}, {"to", to}}, [&] {
    return asyra::c::CopyOut(executor->executor->State(name), to, bytes);
  });
}

asyra_status asyra_executor_set_state(asyra_executor* executor,
                                      const char* name, const void* from,
                                      int64_t bytes) {
  return Guarded({{"executor", executor}, {"name", name}, {"from", from}}, [&] {
    return asyra::c::SetState(*executor->executor, name, from, bytes);
  });
}

void asyra_executor_free(asyra_executor* executor) { delete executor; }
