#include "executor/run.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "executor/cpu/local_world.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;

bool IsLeftOut(const Tensor& tensor, const Shape& given) {
  return tensor.num_elements() == 0 && tensor.shape() != given;
}

// What one rank gives.
struct RankResult {
  std::vector<Tensor> outputs;  // its shards
  std::vector<double> step_us;
};

class Run {
 public:
  Run(const Program& program, absl::Span<const Tensor> inputs,
      Platform& platform, const RunOptions& options)
      : program_(program),
        inputs_(inputs),
        platform_(platform),
        options_(options),
        ranks_(program.mesh.num_devices()) {}

  absl::StatusOr<RunResult> OnThreads() {
    ASYRA_RETURN_IF_ERROR(TakeInputs());
    ASYRA_RETURN_IF_ERROR(platform_.CheckRanks(ranks_));
    std::vector<RankResult> results(ranks_);
    ASYRA_RETURN_IF_ERROR(RunLocalRanks(
        ranks_, {options_.timeout_s, options_.inject_comm_us},
        [&](Communicator& world) -> absl::Status {
          ASYRA_ASSIGN_OR_RETURN(
              results[world.rank()],
              RunRank(world, world.rank(), ranks_, world.rank() == 0));
          return absl::OkStatus();
        }));
    return Collect(results);
  }

  absl::StatusOr<RunResult> AsRankOf(Communicator& world) {
    ASYRA_RETURN_IF_ERROR(TakeInputs());
    int64_t sharing =
        options_.ranks_on_host > 0 ? options_.ranks_on_host : world.size();
    ASYRA_RETURN_IF_ERROR(platform_.CheckRanks(sharing));
    ASYRA_ASSIGN_OR_RETURN(RankResult mine,
                           RunRank(world, options_.local_rank, sharing, true));
    ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> bytes,
                           world.Exchange(Pack(mine)));
    std::vector<RankResult> results;
    for (const std::string& packed : bytes) {
      ASYRA_ASSIGN_OR_RETURN(RankResult result, Unpack(packed));
      results.push_back(std::move(result));
    }
    return Collect(results);
  }

 private:
  absl::Status TakeInputs() {
    if (inputs_.size() != program_.inputs.size()) {
      return Invalid("{} inputs are given, the program has {}", inputs_.size(),
                     program_.inputs.size());
    }
    if (program_.weights != nullptr) weights_ = *program_.weights;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = program_.inputs[i];
      const Type& type = program_.type(input.value);
      const std::string& name = program_.value_name(input.value);
      if (input.role == InputRole::kWeight) {
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

  Tensor ShardOf(size_t input, int64_t rank) const {
    return Shard(inputs_[input], program_.type(program_.inputs[input].value),
                 program_.mesh, rank);
  }

  absl::StatusOr<RankResult> RunRank(Communicator& host, int64_t local_rank,
                                     int64_t ranks_on_host, bool reports) {
    int64_t rank = host.rank();
    ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                           platform_.MakeDevice(local_rank, ranks_on_host));
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> connected,
                           platform_.Connect(host, *device));
    Communicator& world = connected == nullptr ? host : *connected;
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                           Executor::Load(program_));
    ASYRA_RETURN_IF_ERROR(
        executor->Prepare(*device, &world, &weights_, options_.executor));
    std::vector<Tensor> data;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (program_.inputs[i].role == InputRole::kData) {
        data.push_back(ShardOf(i, rank));
      }
    }
    RankResult result;
    std::vector<Tensor> first;
    for (int64_t step = 0; step < options_.repeat; ++step) {
      ASYRA_RETURN_IF_ERROR(SetStates(*executor, rank));
      ASYRA_RETURN_IF_ERROR(world.Exchange("").status());  // all at once
      auto begin = Clock::now();
      ASYRA_RETURN_IF_ERROR(executor->Step(data));
      result.step_us.push_back(
          std::chrono::duration<double, std::micro>(Clock::now() - begin)
              .count());
      if (options_.check_deterministic) {
        ASYRA_RETURN_IF_ERROR(CompareWithFirst(*executor, step, &first));
      }
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(Tensor shard, executor->Output(i));
      result.outputs.push_back(std::move(shard));
    }
    if (reports) {
      report_.memory = executor->memory();
      ASYRA_ASSIGN_OR_RETURN(report_.used, executor->MeasureMemory());
      report_.fallback_ops = executor->fallback_ops();
      report_.split_fusions = executor->split_fusions();
      report_.profile = executor->Profile();
    }
    return result;
  }

  Type LocalOutput(size_t index) const {
    return program_.type(program_.outputs[index].value).Local(program_.mesh);
  }

  // The times of the steps, then the bytes of every output.
  std::string Pack(const RankResult& result) const {
    std::string bytes(reinterpret_cast<const char*>(result.step_us.data()),
                      result.step_us.size() * sizeof(double));
    for (const Tensor& shard : result.outputs) {
      bytes.append(reinterpret_cast<const char*>(shard.data()), shard.bytes());
    }
    return bytes;
  }
  // Error: another rank has run something else.
  absl::StatusOr<RankResult> Unpack(const std::string& bytes) const {
    RankResult result;
    size_t size = options_.repeat * sizeof(double);
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      size += LocalOutput(i).bytes();
    }
    if (bytes.size() != size) {
      return Invalid("a rank gives {} bytes of results, another one {}",
                     bytes.size(), size);
    }
    result.step_us.resize(options_.repeat);
    const char* at = bytes.data();
    std::memcpy(result.step_us.data(), at, options_.repeat * sizeof(double));
    at += options_.repeat * sizeof(double);
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      Type local = LocalOutput(i);
      Tensor& shard = result.outputs.emplace_back(local.dtype, local.shape());
      if (shard.bytes() == 0) continue;
      std::memcpy(shard.mutable_data(), at, shard.bytes());
      at += shard.bytes();
    }
    return result;
  }

  absl::Status SetStates(Executor& executor, int64_t rank) const {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const Input& input = program_.inputs[i];
      if (input.role != InputRole::kState) continue;
      ASYRA_RETURN_IF_ERROR(executor.SetState(program_.value_name(input.value),
                                              ShardOf(i, rank)));
    }
    return absl::OkStatus();
  }

  absl::Status CompareWithFirst(Executor& executor, int64_t step,
                                std::vector<Tensor>* first) const {
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(Tensor output, executor.Output(i));
      if (step == 0) {
        first->push_back(std::move(output));
      } else if (!SameBytes(output, (*first)[i])) {
        return absl::InternalError(
            fmt::format("output %{} of step {} differs from that of step 0",
                        program_.value_name(program_.outputs[i].value), step));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<RunResult> Collect(const std::vector<RankResult>& results) {
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(Tensor whole, Whole(results, i));
      report_.outputs.push_back(std::move(whole));
    }
    for (int64_t step = 0; step < options_.repeat; ++step) {
      double slowest = 0;
      for (const RankResult& result : results) {
        slowest = std::max(slowest, result.step_us[step]);
      }
      report_.step_us.push_back(slowest);
    }
    return std::move(report_);
  }

  absl::StatusOr<Tensor> Whole(const std::vector<RankResult>& results,
                               size_t index) const {
    ValueId value = program_.outputs[index].value;
    const Type& type = program_.type(value);
    std::vector<Tensor> shards;
    for (const RankResult& result : results) {
      shards.push_back(result.outputs[index]);
    }
    Tensor whole = Unshard(shards, type, program_.mesh);
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      if (SameBytes(Shard(whole, type, program_.mesh, rank), shards[rank])) {
        continue;
      }
      return absl::InternalError(
          fmt::format("output %{} differs between ranks, on rank {}",
                      program_.value_name(value), rank));
    }
    return whole;
  }

  const Program& program_;
  absl::Span<const Tensor> inputs_;
  Platform& platform_;
  const RunOptions& options_;
  int64_t ranks_;
  WeightStore weights_;
  RunResult report_;
};

}  // namespace

absl::StatusOr<RunResult> RunOnThreads(const Program& program,
                                       absl::Span<const Tensor> inputs,
                                       Platform& platform,
                                       const RunOptions& options) {
  return Run(program, inputs, platform, options).OnThreads();
}

absl::StatusOr<RunResult> RunAsRank(const Program& program,
                                    absl::Span<const Tensor> inputs,
                                    Platform& platform, Communicator& world,
                                    const RunOptions& options) {
  return Run(program, inputs, platform, options).AsRankOf(world);
}

}  // namespace asyra
