#include "executor/run_case.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "executor/comm/begin_together.h"
#include "executor/train/first_values.h"
#include "ir/support/status.h"
#include "ir/weights/shard_reader.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;

double UsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin)
      .count();
}

bool IsLeftOut(const Tensor& tensor, const Shape& given) {
  return tensor.num_elements() == 0 && tensor.shape() != given;
}

}  // namespace

absl::Status SharedCase::TakeInputs() {
  if (inputs_.size() != program_.inputs.size()) {
    return Invalid("{} inputs are given, the program has {}", inputs_.size(),
                   program_.inputs.size());
  }
  if (program_.weights != nullptr) weights_ = *program_.weights;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = program_.inputs[i];
    const Type& type = program_.type(input.value);
    const std::string& name = program_.value_name(input.value);
    if (IsWeight(input)) {
      if (!IsLeftOut(inputs_[i], program_.GivenShape(input))) {
        weights_.Set(name, inputs_[i]);
      }
    } else if (inputs_[i].dtype() != type.dtype ||
               inputs_[i].shape() != type.shape()) {
      return Invalid("input %{} is {}{}, the program takes {}{}", name,
                     ToString(inputs_[i].dtype()),
                     ShapeToString(inputs_[i].shape()), ToString(type.dtype),
                     ShapeToString(type.shape()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Executor>> SharedCase::Prepare(
    Device& device, Communicator& world) const {
  ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                         Executor::Load(program_));
  ExecutorOptions options = options_.executor;
  if (options_.init != nullptr) {
    ASYRA_ASSIGN_OR_RETURN(options.states, StateSet::Create(device));
    ASYRA_RETURN_IF_ERROR(options.states->Join(program_));
    ASYRA_RETURN_IF_ERROR(SetStates(*options.states, world));
  }
  ASYRA_RETURN_IF_ERROR(executor->Prepare(device, &world, &weights_, options));
  return executor;
}

absl::StatusOr<std::vector<Tensor>> SharedCase::DataOf(int64_t rank) const {
  std::vector<Tensor> data;
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    if (program_.inputs[i].role != InputRole::kData) continue;
    ASYRA_ASSIGN_OR_RETURN(data.emplace_back(), ShardOf(i, rank));
  }
  return data;
}

absl::Status SharedCase::SetStates(Executor& executor, int64_t rank) const {
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    const Input& input = program_.inputs[i];
    if (input.role != InputRole::kState) continue;
    ASYRA_ASSIGN_OR_RETURN(Tensor shard, ShardOf(i, rank));
    ASYRA_RETURN_IF_ERROR(
        executor.SetState(program_.value_name(input.value), shard));
  }
  return absl::OkStatus();
}

std::set<std::string> SharedCase::MadeOf(const StateSet& states) const {
  std::set<std::string> made;
  for (const Input& input : program_.inputs) {
    const std::string& name = program_.value_name(input.value);
    if (input.role != InputRole::kParam || weights_.Find(name) != nullptr) {
      continue;
    }
    const StateSet::State* state = states.Find(name);
    if (state != nullptr && !state->is_set) made.insert(name);
  }
  return made;
}

absl::Status SharedCase::SetStates(StateSet& states,
                                   Communicator& world) const {
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    const Input& input = program_.inputs[i];
    const std::string& name = program_.value_name(input.value);
    if (input.role != InputRole::kState || states.Find(name) == nullptr) {
      continue;
    }
    ASYRA_ASSIGN_OR_RETURN(Tensor shard, ShardOf(i, world.rank()));
    ASYRA_RETURN_IF_ERROR(states.Set(name, shard));
  }
  if (options_.init == nullptr) return absl::OkStatus();
  return SetMadeValues(*options_.init, MadeOf(states), options_.seed, &world,
                       states);
}

void SharedCase::AddWeights(WeightStore* weights) const {
  for (const Input& input : program_.inputs) {
    const std::string& name = program_.value_name(input.value);
    const Tensor* data = IsWeight(input) ? weights_.Find(name) : nullptr;
    if (data != nullptr) weights->Set(name, *data);
  }
}

absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> SharedCase::Params(
    Executor& executor) const {
  std::vector<std::pair<std::string, Tensor>> params;
  for (const Input& input : program_.inputs) {
    if (input.role != InputRole::kParam) continue;
    const std::string& name = program_.value_name(input.value);
    ASYRA_ASSIGN_OR_RETURN(Tensor value, executor.State(name));
    params.emplace_back(name, std::move(value));
  }
  return params;
}

absl::Status SharedCase::Report(Executor& executor) {
  report_.memory = executor.memory();
  ASYRA_ASSIGN_OR_RETURN(report_.used, executor.MeasureMemory());
  report_.fallback_ops = executor.fallback_ops();
  report_.collectives = executor.collectives();
  report_.fallback_collectives = executor.fallback_collectives();
  report_.split_fusions = executor.split_fusions();
  report_.program = executor.program();
  report_.profile = executor.Profile();
  return absl::OkStatus();
}

std::string SharedCase::Pack(const RankResult& result) const {
  std::vector<double> times = result.step_us;
  times.insert(times.end(), result.inputs_us.begin(), result.inputs_us.end());
  times.push_back(result.outputs_us);
  std::string bytes(reinterpret_cast<const char*>(times.data()),
                    times.size() * sizeof(double));
  for (const Tensor& shard : result.outputs) {
    bytes.append(reinterpret_cast<const char*>(shard.data()), shard.bytes());
  }
  return bytes;
}

absl::StatusOr<RankResult> SharedCase::Unpack(const std::string& bytes) const {
  RankResult result;
  std::vector<double> times(2 * options_.repeat + 1);
  size_t size = times.size() * sizeof(double);
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    size += LocalOutput(i).bytes();
  }
  if (bytes.size() != size) {
    return Invalid("a rank gives {} bytes of results, another one {}",
                   bytes.size(), size);
  }
  const char* at = bytes.data();
  std::memcpy(times.data(), at, times.size() * sizeof(double));
  at += times.size() * sizeof(double);
  auto middle = times.begin() + options_.repeat;
  result.step_us.assign(times.begin(), middle);
  result.inputs_us.assign(middle, times.end() - 1);
  result.outputs_us = times.back();
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    Type local = LocalOutput(i);
    Tensor& shard = result.outputs.emplace_back(local.dtype, local.shape());
    if (shard.bytes() == 0) continue;
    std::memcpy(shard.mutable_data(), at, shard.bytes());
    at += shard.bytes();
  }
  return result;
}

absl::StatusOr<RunResult> SharedCase::Collect(
    absl::Span<const RankResult> results) {
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(Tensor whole, Whole(results, i));
    report_.outputs.push_back(std::move(whole));
  }
  for (int64_t step = 0; step < options_.repeat; ++step) {
    double& slowest = report_.step_us.emplace_back(0);
    double& inputs = report_.inputs_us.emplace_back(0);
    for (const RankResult& result : results) {
      slowest = std::max(slowest, result.step_us[step]);
      inputs = std::max(inputs, result.inputs_us[step]);
    }
  }
  for (const RankResult& result : results) {
    report_.outputs_us = std::max(report_.outputs_us, result.outputs_us);
  }
  return std::move(report_);
}

absl::StatusOr<Tensor> SharedCase::ShardOf(size_t input, int64_t rank) const {
  const Tensor& given = inputs_[input];
  const Type& type = program_.type(program_.inputs[input].value);
  bool stored = given.data() != nullptr || given.source() == nullptr;
  if (!stored && type.partial.empty()) {
    return ReadShard(given, type, program_.mesh, rank);
  }
  ASYRA_ASSIGN_OR_RETURN(Tensor whole, ReadWhole(given));
  return Shard(whole, type, program_.mesh, rank);
}

Type SharedCase::LocalOutput(size_t index) const {
  return program_.type(program_.outputs[index].value).Local(program_.mesh);
}

absl::StatusOr<Tensor> SharedCase::Whole(absl::Span<const RankResult> results,
                                         size_t index) const {
  ValueId value = program_.outputs[index].value;
  const Type& type = program_.type(value);
  std::vector<Tensor> shards;
  for (const RankResult& result : results) {
    shards.push_back(result.outputs[index]);
  }
  Tensor whole = Unshard(shards, type, program_.mesh);
  if (!type.partial.empty()) return whole;  // each has a part of its own
  for (size_t rank = 0; rank < results.size(); ++rank) {
    if (SameBytes(Shard(whole, type, program_.mesh, rank), shards[rank])) {
      continue;
    }
    return absl::InternalError(
        fmt::format("output %{} differs between ranks, on rank {}",
                    program_.output_name(program_.outputs[index]), rank));
  }
  return whole;
}

absl::Status RankCase::Prepare(Device& device, Communicator& world,
                               const RunOptions& options) {
  ASYRA_ASSIGN_OR_RETURN(data_, shared_.DataOf(rank_));
  ASYRA_ASSIGN_OR_RETURN(executor_, shared_.Prepare(device, world));
  if (options.repeat > 1) {
    ASYRA_ASSIGN_OR_RETURN(params_, shared_.Params(*executor_));
  }
  return absl::OkStatus();
}

absl::Status RankCase::Step(Communicator& world, const RunOptions& options) {
  ASYRA_RETURN_IF_ERROR(shared_.SetStates(*executor_, rank_));
  if (!result_.step_us.empty()) {
    for (const auto& [name, value] : params_) {
      ASYRA_RETURN_IF_ERROR(executor_->SetState(name, value));
    }
  }
  auto copied = Clock::now();
  ASYRA_RETURN_IF_ERROR(executor_->CopyInputs(data_));
  result_.inputs_us.push_back(UsSince(copied));
  ASYRA_RETURN_IF_ERROR(BeginTogether(world));
  auto begin = Clock::now();
  ASYRA_RETURN_IF_ERROR(executor_->StartCopied());
  ASYRA_RETURN_IF_ERROR(executor_->Finish());
  result_.step_us.push_back(UsSince(begin));
  return options.check_deterministic ? CompareWithFirst() : absl::OkStatus();
}

absl::StatusOr<RankResult> RankCase::Finish(bool reports) {
  auto begin = Clock::now();
  for (size_t i = 0; i < shared_.program().outputs.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(Tensor shard, executor_->Output(i));
    result_.outputs.push_back(std::move(shard));
  }
  result_.outputs_us = UsSince(begin);
  if (reports) ASYRA_RETURN_IF_ERROR(shared_.Report(*executor_));
  return std::move(result_);
}

absl::Status RankCase::CompareWithFirst() {
  const Program& program = shared_.program();
  size_t step = result_.step_us.size() - 1;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    ASYRA_ASSIGN_OR_RETURN(Tensor output, executor_->Output(i));
    if (step == 0) {
      first_.push_back(std::move(output));
    } else if (!SameBytes(output, first_[i])) {
      return absl::InternalError(
          fmt::format("output %{} of step {} differs from that of step 0",
                      program.output_name(program.outputs[i]), step));
    }
  }
  return absl::OkStatus();
}

}  // namespace asyra
