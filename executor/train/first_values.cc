#include "executor/train/first_values.h"

#include <set>

#include "executor/executor.h"
#include "ir/shard_reader.h"
#include "ir/support/status.h"
#include "ir/weight_store.h"

namespace asyra {
namespace {

absl::Status SetFromData(const Program& step, const Input& input, int64_t rank,
                         StateSet& states) {
  const std::string& name = step.value_name(input.value);
  const Tensor& whole = *step.weights->Find(name);
  ASYRA_RETURN_IF_ERROR(CheckStored(step, input, whole));
  auto shard = ReadShard(whole, step.type(input.value), step.mesh, rank);
  if (!shard.ok()) {
    return Annotate(shard.status(), fmt::format("weight %{}", name));
  }
  return states.Set(name, *shard);
}

absl::Status SetRandom(const Program& init, const std::set<std::string>& made,
                       int64_t seed, Communicator* world, StateSet& states) {
  ASYRA_ASSIGN_OR_RETURN(auto executor, Executor::Load(init));
  ASYRA_RETURN_IF_ERROR(executor->Prepare(states.device(), world, nullptr));
  ASYRA_RETURN_IF_ERROR(
      executor->Step({Tensor::FromInts(DType::kI64, {1}, {seed})}));
  for (const std::string& name : made) {
    ASYRA_ASSIGN_OR_RETURN(DeviceView value, executor->OutputView(name));
    ASYRA_RETURN_IF_ERROR(states.Set(name, value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SetFirstValues(const TrainingPrograms& programs, bool random,
                            int64_t seed, Communicator* world,
                            StateSet& states) {
  const Program& step = programs.step;
  std::vector<std::string> without = ParamsWithoutData(step);
  std::set<std::string> made(without.begin(), without.end());
  for (const Input& input : step.inputs) {
    if (input.role != InputRole::kParam) continue;
    if (random) made.insert(step.value_name(input.value));
    if (made.contains(step.value_name(input.value))) continue;
    ASYRA_RETURN_IF_ERROR(
        SetFromData(step, input, world == nullptr ? 0 : world->rank(), states));
  }
  if (made.empty()) return absl::OkStatus();
  return SetRandom(programs.init, made, seed, world, states);
}

}  // namespace asyra
