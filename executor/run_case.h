// A program of a run (run.h): what all its ranks share, and one rank's end.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/run.h"

namespace asyra {

// Results of one rank for one program.
struct RankResult {
  std::vector<Tensor> outputs;             // its shards
  std::vector<double> step_us, inputs_us;  // by step
  double outputs_us = 0;                   // after the last one
};

// One of the programs, with all that its ranks share. Its arguments outlive it.
// Const functions are thread-safe.
class SharedCase {
 public:
  SharedCase(const RunCase& given, const RunOptions& options)
      : name_(given.name),
        program_(*given.program),
        inputs_(given.inputs),
        options_(options) {}

  const std::string& name() const { return name_; }
  const Program& program() const { return program_; }

  // Takes the inputs; called first. Error: inputs that are not the program's.
  absl::Status TakeInputs();

  absl::StatusOr<std::unique_ptr<Executor>> Prepare(Device& device,
                                                    Communicator& world) const;
  // Returns the data inputs of `rank` for a step.
  absl::StatusOr<std::vector<Tensor>> DataOf(int64_t rank) const;
  absl::Status SetStates(Executor& executor, int64_t rank) const;
  // Sets the states that `states` has, and params that RunOptions::init makes.
  absl::Status SetStates(StateSet& states, Communicator& world) const;
  // Adds the weights of the inputs and of the program's own store.
  void AddWeights(WeightStore* weights) const;
  // This rank's params as they are now, which a step changes.
  absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> Params(
      Executor& executor) const;

  // Makes the report; called by the one rank of this process that reports.
  absl::Status Report(Executor& executor);

  // Packs the times of the steps, then the bytes of every output.
  std::string Pack(const RankResult& result) const;
  // Error: another rank has run something else.
  absl::StatusOr<RankResult> Unpack(const std::string& bytes) const;

  // Returns the result with the outputs and times of all ranks. Error: copies
  // of an output that differ.
  absl::StatusOr<RunResult> Collect(absl::Span<const RankResult> results);

 private:
  absl::StatusOr<Tensor> ShardOf(size_t input, int64_t rank) const;
  // Params of `states` that have neither data nor a value.
  std::set<std::string> MadeOf(const StateSet& states) const;
  Type LocalOutput(size_t index) const;
  absl::StatusOr<Tensor> Whole(absl::Span<const RankResult> results,
                               size_t index) const;

  const std::string name_;
  const Program& program_;
  absl::Span<const Tensor> inputs_;
  const RunOptions& options_;
  WeightStore weights_;
  RunResult report_;
};

// One rank's end of one program.
class RankCase {
 public:
  RankCase(SharedCase& shared, int64_t rank) : shared_(shared), rank_(rank) {}

  absl::Status Prepare(Device& device, Communicator& world,
                       const RunOptions& options);
  // All ranks begin it at once.
  absl::Status Step(Communicator& world, const RunOptions& options);
  absl::StatusOr<RankResult> Finish(bool reports);

 private:
  absl::Status CompareWithFirst();

  SharedCase& shared_;
  int64_t rank_;
  std::unique_ptr<Executor> executor_;
  std::vector<Tensor> data_;
  // Params before the first step; none if it is the only one.
  std::vector<std::pair<std::string, Tensor>> params_;
  std::vector<Tensor> first_;  // outputs of step 0
  RankResult result_;
};

}  // namespace asyra
