#include "tools/train_run.h"

#include <chrono>

#include "executor/comm/thread_world.h"
#include "ir/shard_reader.h"
#include "ir/support/status.h"
#include "ir/weight_store.h"
#include "passes/train/attach_updates.h"
#include "passes/train/init_program.h"

namespace asyra {
namespace {

using Clock = std::chrono::steady_clock;

// This rank's parts of whole tensors, in the order of the program's inputs.
absl::StatusOr<std::vector<Tensor>> ShardsOf(const Program& program,
                                             const TrainData& data,
                                             int64_t rank) {
  std::vector<Tensor> shards;
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kData) continue;
    const std::string& name = program.value_name(input.value);
    auto found = std::find_if(data.begin(), data.end(), [&](const auto& one) {
      return one.first == name;
    });
    if (found == data.end()) return Invalid("input %{} is not given", name);
    ASYRA_RETURN_IF_ERROR(CheckStored(program, input, found->second));
    shards.push_back(
        Shard(found->second, program.type(input.value), program.mesh, rank));
  }
  return shards;
}

// One rank of a run.
class Rank {
 public:
  Rank(const TrainRun& run, Device& device, Communicator& world)
      : run_(run), device_(device), world_(world) {}

  absl::Status Prepare() {
    const Program& program = run_.training->step.program;
    bool made = !run_.training->made.empty();
    ASYRA_ASSIGN_OR_RETURN(step_,
                           Load(program, {.params_are_set_later = made}));
    return made ? SetParams() : absl::OkStatus();
  }

  absl::Status Steps() {
    for (int64_t step = 0; step < run_.steps; ++step) {
      Clock::time_point begin = Clock::now();
      ASYRA_ASSIGN_OR_RETURN(TrainData data, run_.data(step));
      ASYRA_ASSIGN_OR_RETURN(Tensor rate, RateOf(step));
      data.emplace_back(kRate, rate);
      ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> shards,
                             ShardsOf(step_->program(), data, world_.rank()));
      ASYRA_RETURN_IF_ERROR(step_->Step(shards));
      if (world_.rank() != 0 || !run_.report) continue;
      ASYRA_ASSIGN_OR_RETURN(Tensor loss, step_->Output(kLoss));
      ASYRA_ASSIGN_OR_RETURN(Tensor norm, step_->Output(kNorm));
      std::chrono::duration<double> took = Clock::now() - begin;
      run_.report({step + 1, loss.Get(0), norm.Get(0), took.count()});
    }
    return absl::OkStatus();
  }

  // This rank's outputs of the program that runs at the end.
  absl::StatusOr<std::vector<Tensor>> Last() {
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Executor> last,
                           Load(*run_.last, {.params_are_set_later = true}));
    for (const Input& input : run_.last->inputs) {
      if (input.role != InputRole::kParam) continue;
      const std::string& name = run_.last->value_name(input.value);
      ASYRA_ASSIGN_OR_RETURN(Tensor value, step_->State(name));
      ASYRA_RETURN_IF_ERROR(last->SetState(name, value));
    }
    ASYRA_ASSIGN_OR_RETURN(std::vector<Tensor> shards,
                           ShardsOf(*run_.last, run_.last_data, world_.rank()));
    ASYRA_RETURN_IF_ERROR(last->Step(shards));
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < run_.last->outputs.size(); ++i) {
      ASYRA_ASSIGN_OR_RETURN(outputs.emplace_back(), last->Output(i));
    }
    return outputs;
  }

  MemoryUse memory() const { return step_->memory(); }

 private:
  absl::StatusOr<std::unique_ptr<Executor>> Load(
      const Program& program, const ExecutorOptions& options) {
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                           Executor::Load(program));
    ASYRA_RETURN_IF_ERROR(
        executor->Prepare(device_, &world_, nullptr, options));
    return executor;
  }

  // Whether the param begins with a value of the init program.
  bool IsMade(std::string_view name) const {
    const std::vector<std::string>& made = run_.training->made;
    return std::find(made.begin(), made.end(), name) != made.end();
  }

  // From the data of the weights, or from the init program.
  absl::Status SetParams() {
    const Program& program = step_->program();
    for (const Input& input : program.inputs) {
      const std::string& name = program.value_name(input.value);
      if (input.role != InputRole::kParam || IsMade(name)) continue;
      const Tensor* whole = program.weights->Find(name);
      ASYRA_RETURN_IF_ERROR(CheckStored(program, input, *whole));
      ASYRA_ASSIGN_OR_RETURN(Tensor shard,
                             ReadShard(*whole, program.type(input.value),
                                       program.mesh, world_.rank()));
      ASYRA_RETURN_IF_ERROR(step_->SetState(name, shard));
    }
    ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Executor> init,
                           Load(run_.training->init, {}));
    Tensor seed = Tensor::FromInts(DType::kI64, {1}, {run_.seed});
    ASYRA_RETURN_IF_ERROR(init->Step({seed}));
    for (std::string_view name : init->outputs()) {
      if (!IsMade(name)) continue;
      ASYRA_ASSIGN_OR_RETURN(Tensor value, init->Output(name));
      ASYRA_RETURN_IF_ERROR(step_->SetState(name, value));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> RateOf(int64_t step) const {
    const Program& program = step_->program();
    ValueId rate = program.FindValue(kRate);
    if (rate == kNoValue) return Invalid("the step has no input {}", kRate);
    return Tensor::FromDoubles(program.type(rate).dtype, {}, {run_.rate(step)});
  }

  const TrainRun& run_;
  Device& device_;
  Communicator& world_;
  std::unique_ptr<Executor> step_;
};

}  // namespace

absl::StatusOr<TrainResult> Train(const TrainRun& run) {
  const Program& step = run.training->step.program;
  int64_t ranks = step.mesh.num_devices();
  ASYRA_RETURN_IF_ERROR(run.platform->CheckRanks(ranks));
  std::vector<std::vector<Tensor>> last(ranks);
  TrainResult result;
  ASYRA_RETURN_IF_ERROR(RunLocalRanks(
      ranks, {.timeout_s = run.timeout_s},
      [&](Communicator& control) -> absl::Status {
        int64_t number = control.rank();
        ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                               run.platform->MakeDevice(number, ranks));
        ASYRA_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> connected,
                               run.platform->Connect(control, *device));
        Communicator& world = connected == nullptr ? control : *connected;
        Rank rank(run, *device, world);
        ASYRA_RETURN_IF_ERROR(rank.Prepare());
        ASYRA_RETURN_IF_ERROR(rank.Steps());
        if (number == 0) result.memory = rank.memory();
        if (run.last == nullptr) return absl::OkStatus();
        ASYRA_ASSIGN_OR_RETURN(last[number], rank.Last());
        return absl::OkStatus();
      }));
  if (run.last == nullptr) return result;
  for (size_t i = 0; i < run.last->outputs.size(); ++i) {
    std::vector<Tensor> shards;
    for (const auto& of_rank : last) shards.push_back(of_rank[i]);
    result.last_outputs.push_back(Unshard(
        shards, run.last->type(run.last->outputs[i].value), run.last->mesh));
  }
  return result;
}

}  // namespace asyra
