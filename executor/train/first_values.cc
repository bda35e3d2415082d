#include "executor/train/first_values.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "executor/executor.h"
#include "ir/support/status.h"
#include "ir/weights/shard_reader.h"
#include "ir/weights/weight_store.h"

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

// `program` with these outputs alone and what they need. Offsets were those of
// all values: the executor plans new ones.
Program PartOf(Program program, std::vector<Output> outputs) {
  program.outputs = std::move(outputs);
  std::vector<bool> needed(program.values.size(), false);
  for (const Output& output : program.outputs) needed[output.value] = true;
  std::vector<Op> kept;
  for (auto op = program.ops.rbegin(); op != program.ops.rend(); ++op) {
    bool needs =
        absl::c_any_of(op->results, [&](ValueId v) { return needed[v]; });
    if (!needs) continue;
    for (ValueId operand : op->operands) needed[operand] = true;
    for (ValueId result : op->results) needed[result] = true;
    kept.push_back(*op);
  }
  std::reverse(kept.begin(), kept.end());
  for (Op& op : kept) {
    auto gone = [&](ValueId v) { return !needed[v]; };
    op.after.erase(std::remove_if(op.after.begin(), op.after.end(), gone),
                   op.after.end());
  }
  program.ops = std::move(kept);
  program.stage = std::min(program.stage, Stage::kScheduled);
  for (Value& value : program.values) value.offset = -1;
  program.DropUnusedValues();
  return program;
}

// The outputs of `init` that are `made`, in groups as large as the largest.
std::vector<std::vector<Output>> GroupsOf(const Program& init,
                                          const std::set<std::string>& made) {
  auto bytes_of = [&](const Output& output) {
    return LocalBytes(init.type(output.value), init.mesh);
  };
  int64_t most = 0, bytes = 0;
  for (const Output& output : init.outputs) {
    if (made.contains(init.output_name(output))) {
      most = std::max(most, bytes_of(output));
    }
  }
  std::vector<std::vector<Output>> groups;
  for (const Output& output : init.outputs) {
    if (!made.contains(init.output_name(output))) continue;
    bytes += bytes_of(output);
    if (groups.empty() || bytes > most) {
      groups.emplace_back();
      bytes = bytes_of(output);
    }
    groups.back().push_back(output);
  }
  return groups;
}

absl::Status SetPart(const Program& part, int64_t seed, Communicator* world,
                     StateSet& states) {
  ASYRA_ASSIGN_OR_RETURN(auto executor, Executor::Load(part));
  ASYRA_RETURN_IF_ERROR(executor->Prepare(states.device(), world, nullptr));
  std::vector<Tensor> inputs;
  if (!part.inputs.empty()) {
    inputs.push_back(Tensor::FromInts(DType::kI64, {1}, {seed}));
  }
  ASYRA_RETURN_IF_ERROR(executor->Step(inputs));
  for (const Output& output : part.outputs) {
    const std::string& name = part.output_name(output);
    ASYRA_ASSIGN_OR_RETURN(DeviceView value, executor->OutputView(name));
    ASYRA_RETURN_IF_ERROR(states.Set(name, value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SetMadeValues(const Program& init,
                           const std::set<std::string>& made, int64_t seed,
                           Communicator* world, StateSet& states) {
  std::set<std::string> left = made;
  for (const Output& output : init.outputs)
    left.erase(init.output_name(output));
  if (!left.empty()) {
    return Invalid("@{} gives no values for %{}", init.name, *left.begin());
  }
  for (std::vector<Output>& group : GroupsOf(init, made)) {
    ASYRA_RETURN_IF_ERROR(
        SetPart(PartOf(init, std::move(group)), seed, world, states));
  }
  return absl::OkStatus();
}

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
  return SetMadeValues(programs.init, made, seed, world, states);
}

}  // namespace asyra
