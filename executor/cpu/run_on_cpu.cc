#include "executor/cpu/run_on_cpu.h"

#include <algorithm>
#include <thread>

#include "executor/cpu/counter.h"
#include "executor/cpu/cpu_device.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

bool IsLeftOut(const Tensor& tensor, const Shape& given) {
  return tensor.num_elements() == 0 && tensor.shape() != given;
}

class Run {
 public:
  Run(const Program& program, absl::Span<const Tensor> inputs,
      const CpuRunOptions& options)
      : program_(program),
        inputs_(inputs),
        options_(options),
        ranks_(program.mesh.num_devices()),
        shards_(program.outputs.size(), std::vector<Tensor>(ranks_)),
        step_us_(ranks_) {}

  absl::StatusOr<CpuRun> Go() {
    ASYRA_RETURN_IF_ERROR(TakeInputs());
    int64_t cores = std::max(1u, std::thread::hardware_concurrency());
    CpuDeviceOptions device;
    device.threads_per_stream =
        static_cast<int>(std::max<int64_t>(1, cores / ranks_));
    device.memory_bytes = options_.memory_bytes;
    device_ = CreateCpuDevice(device);
    ASYRA_RETURN_IF_ERROR(
        RunLocalRanks(ranks_, options_.world,
                      [this](Communicator& world) { return RunRank(world); }));
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(Tensor whole, Collect(i));
      result_.outputs.push_back(std::move(whole));
    }
    for (int64_t step = 0; step < options_.repeat; ++step) {
      double slowest = 0;
      for (const auto& times : step_us_) {
        slowest = std::max(slowest, times[step]);
      }
      result_.step_us.push_back(slowest);
    }
    return std::move(result_);
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

  absl::Status RunRank(Communicator& world) {
    int64_t rank = world.rank();
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                           Executor::Load(program_));
    ASYRA_RETURN_IF_ERROR(
        executor->Prepare(*device_, &world, &weights_, options_.executor));
    std::vector<Tensor> data;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (program_.inputs[i].role == InputRole::kData) {
        data.push_back(ShardOf(i, rank));
      }
    }
    std::vector<Tensor> first;
    for (int64_t step = 0; step < options_.repeat; ++step) {
      ASYRA_RETURN_IF_ERROR(SetStates(*executor, rank));
      ASYRA_RETURN_IF_ERROR(world.Exchange("").status());  // all at once
      auto begin = CpuClock::now();
      ASYRA_RETURN_IF_ERROR(executor->Step(data));
      step_us_[rank].push_back(
          std::chrono::duration<double, std::micro>(CpuClock::now() - begin)
              .count());
      if (options_.check_deterministic) {
        ASYRA_RETURN_IF_ERROR(CompareWithFirst(*executor, step, &first));
      }
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(shards_[i][rank], executor->Output(i));
    }
    if (rank == 0) {
      result_.memory = executor->memory();
      result_.fallback_ops = executor->fallback_ops();
      result_.profile = executor->Profile();
    }
    return absl::OkStatus();
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

  absl::StatusOr<Tensor> Collect(size_t index) const {
    ValueId value = program_.outputs[index].value;
    const Type& type = program_.type(value);
    Tensor whole = Unshard(shards_[index], type, program_.mesh);
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      if (SameBytes(Shard(whole, type, program_.mesh, rank),
                    shards_[index][rank])) {
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
  const CpuRunOptions& options_;
  int64_t ranks_;
  WeightStore weights_;
  std::unique_ptr<Device> device_;
  // Each rank writes its own.
  std::vector<std::vector<Tensor>> shards_;   // by output, then rank
  std::vector<std::vector<double>> step_us_;  // by rank
  CpuRun result_;
};

}  // namespace

absl::StatusOr<CpuRun> RunOnCpu(const Program& program,
                                absl::Span<const Tensor> inputs,
                                const CpuRunOptions& options) {
  return Run(program, inputs, options).Go();
}

}  // namespace asyra
