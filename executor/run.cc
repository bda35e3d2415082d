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

// What one rank gives of one program.
struct RankResult {
  std::vector<Tensor> outputs;  // its shards
  std::vector<double> step_us;
};

// One of the programs, with all that its ranks share.
class Case {
 public:
  Case(const RunCase& given, const RunOptions& options)
      : program_(*given.program), inputs_(given.inputs), options_(options) {}

  const Program& program() const { return program_; }

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

  absl::StatusOr<std::unique_ptr<Executor>> Prepare(Device& device,
                                                    Communicator& world) const {
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                           Executor::Load(program_));
    ASYRA_RETURN_IF_ERROR(
        executor->Prepare(device, &world, &weights_, options_.executor));
    return executor;
  }

  std::vector<Tensor> DataOf(int64_t rank) const {
    std::vector<Tensor> data;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (program_.inputs[i].role == InputRole::kData) {
        data.push_back(ShardOf(i, rank));
      }
    }
    return data;
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

  // By the one rank of this process that reports.
  absl::Status Report(Executor& executor) {
    report_.memory = executor.memory();
    ASYRA_ASSIGN_OR_RETURN(report_.used, executor.MeasureMemory());
    report_.fallback_ops = executor.fallback_ops();
    report_.split_fusions = executor.split_fusions();
    report_.profile = executor.Profile();
    return absl::OkStatus();
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

  // Of all ranks.
  absl::StatusOr<RunResult> Collect(absl::Span<const RankResult> results) {
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

 private:
  Tensor ShardOf(size_t input, int64_t rank) const {
    return Shard(inputs_[input], program_.type(program_.inputs[input].value),
                 program_.mesh, rank);
  }

  Type LocalOutput(size_t index) const {
    return program_.type(program_.outputs[index].value).Local(program_.mesh);
  }

  absl::StatusOr<Tensor> Whole(absl::Span<const RankResult> results,
                               size_t index) const {
    ValueId value = program_.outputs[index].value;
    const Type& type = program_.type(value);
    std::vector<Tensor> shards;
    for (const RankResult& result : results) {
      shards.push_back(result.outputs[index]);
    }
    Tensor whole = Unshard(shards, type, program_.mesh);
    for (size_t rank = 0; rank < results.size(); ++rank) {
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
  const RunOptions& options_;
  WeightStore weights_;
  RunResult report_;
};

// One rank's end of one program.
class RankCase {
 public:
  RankCase(Case& shared, int64_t rank)
      : shared_(shared), rank_(rank), data_(shared.DataOf(rank)) {}

  absl::Status Prepare(Device& device, Communicator& world) {
    ASYRA_ASSIGN_OR_RETURN(executor_, shared_.Prepare(device, world));
    return absl::OkStatus();
  }

  absl::Status Step(Communicator& world, const RunOptions& options) {
    ASYRA_RETURN_IF_ERROR(shared_.SetStates(*executor_, rank_));
    ASYRA_RETURN_IF_ERROR(world.Exchange("").status());  // all at once
    auto begin = Clock::now();
    ASYRA_RETURN_IF_ERROR(executor_->Step(data_));
    result_.step_us.push_back(
        std::chrono::duration<double, std::micro>(Clock::now() - begin)
            .count());
    return options.check_deterministic ? CompareWithFirst() : absl::OkStatus();
  }

  absl::StatusOr<RankResult> Finish(bool reports) {
    for (size_t i = 0; i < shared_.program().outputs.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(Tensor shard, executor_->Output(i));
      result_.outputs.push_back(std::move(shard));
    }
    if (reports) ASYRA_RETURN_IF_ERROR(shared_.Report(*executor_));
    return std::move(result_);
  }

 private:
  absl::Status CompareWithFirst() {
    const Program& program = shared_.program();
    size_t step = result_.step_us.size() - 1;
    for (size_t i = 0; i < program.outputs.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(Tensor output, executor_->Output(i));
      if (step == 0) {
        first_.push_back(std::move(output));
      } else if (!SameBytes(output, first_[i])) {
        return absl::InternalError(
            fmt::format("output %{} of step {} differs from that of step 0",
                        program.value_name(program.outputs[i].value), step));
      }
    }
    return absl::OkStatus();
  }

  Case& shared_;
  int64_t rank_;
  std::unique_ptr<Executor> executor_;
  std::vector<Tensor> data_;
  std::vector<Tensor> first_;  // outputs of step 0
  RankResult result_;
};

class Run {
 public:
  Run(absl::Span<const RunCase> cases, Platform& platform,
      const RunOptions& options)
      : platform_(platform), options_(options) {
    for (const RunCase& given : cases) cases_.emplace_back(given, options);
  }

  absl::StatusOr<std::vector<RunResult>> OnThreads() {
    ASYRA_RETURN_IF_ERROR(Begin());
    ASYRA_RETURN_IF_ERROR(platform_.CheckRanks(ranks_));
    std::vector<std::vector<RankResult>> results(ranks_);
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

  absl::StatusOr<std::vector<RunResult>> AsRankOf(Communicator& world) {
    ASYRA_RETURN_IF_ERROR(Begin());
    int64_t sharing =
        options_.ranks_on_host > 0 ? options_.ranks_on_host : world.size();
    ASYRA_RETURN_IF_ERROR(platform_.CheckRanks(sharing));
    ASYRA_ASSIGN_OR_RETURN(std::vector<RankResult> mine,
                           RunRank(world, options_.local_rank, sharing, true));
    std::vector<std::vector<RankResult>> results(world.size());
    for (size_t i = 0; i < cases_.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> bytes,
                             world.Exchange(cases_[i].Pack(mine[i])));
      for (size_t rank = 0; rank < bytes.size(); ++rank) {
        ASYRA_ASSIGN_OR_RETURN(results[rank].emplace_back(),
                               cases_[i].Unpack(bytes[rank]));
      }
    }
    return Collect(results);
  }

 private:
  absl::Status Begin() {
    for (Case& one : cases_) {
      ASYRA_RETURN_IF_ERROR(one.TakeInputs());
      int64_t ranks = one.program().mesh.num_devices();
      if (ranks_ == 0) ranks_ = ranks;
      if (ranks != ranks_) {
        return Invalid("program @{} is for {} devices, @{} for {}",
                       one.program().name, ranks, cases_[0].program().name,
                       ranks_);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<RankResult>> RunRank(Communicator& host,
                                                  int64_t local_rank,
                                                  int64_t ranks_on_host,
                                                  bool reports) {
    ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                           platform_.MakeDevice(local_rank, ranks_on_host));
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> connected,
                           platform_.Connect(host, *device));
    Communicator& world = connected == nullptr ? host : *connected;
    std::vector<RankCase> cases;
    for (Case& one : cases_) {
      ASYRA_RETURN_IF_ERROR(
          cases.emplace_back(one, host.rank()).Prepare(*device, world));
    }
    for (int64_t step = 0; step < options_.repeat; ++step) {
      for (RankCase& one : cases) {
        ASYRA_RETURN_IF_ERROR(one.Step(world, options_));
      }
    }
    std::vector<RankResult> results;
    for (RankCase& one : cases) {
      ASYRA_ASSIGN_OR_RETURN(results.emplace_back(), one.Finish(reports));
    }
    return results;
  }

  // Of each rank, then of each program.
  absl::StatusOr<std::vector<RunResult>> Collect(
      const std::vector<std::vector<RankResult>>& results) {
    std::vector<RunResult> collected;
    for (size_t i = 0; i < cases_.size(); ++i) {
      std::vector<RankResult> of_case;
      for (const auto& of_rank : results) of_case.push_back(of_rank[i]);
      ASYRA_ASSIGN_OR_RETURN(collected.emplace_back(),
                             cases_[i].Collect(of_case));
    }
    return collected;
  }

  Platform& platform_;
  const RunOptions& options_;
  std::vector<Case> cases_;
  int64_t ranks_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<RunResult>> RunOnThreads(
    absl::Span<const RunCase> cases, Platform& platform,
    const RunOptions& options) {
  return Run(cases, platform, options).OnThreads();
}

absl::StatusOr<std::vector<RunResult>> RunAsRank(
    absl::Span<const RunCase> cases, Platform& platform, Communicator& world,
    const RunOptions& options) {
  return Run(cases, platform, options).AsRankOf(world);
}

absl::StatusOr<RunResult> RunOnThreads(const Program& program,
                                       absl::Span<const Tensor> inputs,
                                       Platform& platform,
                                       const RunOptions& options) {
  RunCase one{&program, inputs};
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<RunResult> results,
      RunOnThreads(absl::MakeConstSpan(&one, 1), platform, options));
  return std::move(results[0]);
}

absl::StatusOr<RunResult> RunAsRank(const Program& program,
                                    absl::Span<const Tensor> inputs,
                                    Platform& platform, Communicator& world,
                                    const RunOptions& options) {
  RunCase one{&program, inputs};
  ASYRA_ASSIGN_OR_RETURN(
      std::vector<RunResult> results,
      RunAsRank(absl::MakeConstSpan(&one, 1), platform, world, options));
  return std::move(results[0]);
}

}  // namespace asyra
