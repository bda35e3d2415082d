// The embedding API: one rank's program on one device.
//
//   auto device = CreateCpuDevice();
//   auto executor = Executor::Load(program);            // checked
//   (*executor)->Prepare(*device, world, weights);      // everything expensive
//   for (...) {
//     (*executor)->StepByName({{"input_ids", ids}});    // this rank's shards
//     Tensor logits = (*executor)->Output("logits").value();
//   }
//
// Every rank of the program's mesh has an executor, on a thread or a process
// of its own, and all call the same functions in the same order. Values are
// global in the program's types and local here: a rank gives and gets what it
// holds of them (Shard and Unshard of ir/tensor.h convert).
//
// Prepare chooses kernels, plans memory and reserves it; a step only enqueues
// on the streams that the program names and records the events that its
// start, wait and after name. Within a step nothing is allocated, and threads
// wait for nothing but their own events and their collectives; kernels that
// report otherwise are listed by fallback_ops().
//
// Several executors may live in one process, on one device or several, and
// share a communicator when all ranks step them one after the other in one
// order. An executor is used by one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/comm/communicator.h"
#include "executor/device.h"
#include "executor/device_view.h"
#include "executor/state_set.h"
#include "ir/program.h"
#include "ir/weights/weight_store.h"

namespace asyra {

struct ExecutorOptions {
  // Checks the float results of every op: the step fails at the first NaN or
  // infinity, and names the op.
  bool check_finite = false;
  // Fills results with poison before their op, puts guard bytes behind them
  // where the executor plans the memory, and checks at every read that a value
  // is what its op wrote: wrong reuse fails at the op that reads it.
  bool debug_memory = false;
  // Records when each op ran, for Profile().
  bool profile = false;
  // Params begin as zeros, as states do, and SetState gives them their first
  // value; otherwise Prepare reads it where it reads the weights.
  bool params_are_set_later = false;
  // Memory of params, states and weights, shared with other executors of this
  // rank, and its arena; null: the executor has memory of its own.
  std::shared_ptr<StateSet> states;
  // Inputs and outputs by name that are in memory of the caller, which outlives
  // the executor: steps read and write it, and nothing is copied. An output
  // must be the result of an op that is no view, and replace no state. The
  // memory begins at a multiple of kDeviceAlignment. All ranks name the same.
  std::vector<std::pair<std::string, DeviceView>> memory;
};

// Work of a queue of an overlap (executor/plan_kernel.h), in us from the
// beginning of the step.
struct PartTime {
  std::string queue;  // "copy 0"
  std::string name;   // "copy %2[0:4, 0:8] to %2[0:4, 0:8] of rank 1"
  bool is_copy = false;
  double start_us = 0;
  double end_us = 0;
};

// One op of a step, in us from the beginning of the step.
struct OpTime {
  int op = 0;  // position in the program
  double start_us = 0;
  double end_us = 0;
  std::string_view transport;        // of a collective: what carried it
  std::vector<PartTime> parts = {};  // of an overlap, in order of issue
};

// Collectives of a step that ask for the same and run the same way.
struct CollectiveRun {
  // "all_gather(tp)": OpLabel and its axes; also of overlaps in one kernel.
  std::string label;
  std::string_view asked, ran;  // transports (ir/copy_engine.h)
  // The reason why it does not run by copy engines that were asked for; else
  // empty.
  std::string obstacle;
  int count = 0;
};

struct MemoryUse {
  int64_t arena_bytes = 0;      // reused within a step
  int64_t resident_bytes = 0;   // weights, state and constants
  int64_t workspace_bytes = 0;  // of kernels, one for each stream
  // Bytes of the program's values in a StateSet; executors that share it count
  // the same bytes. An arena of the set is not in it, nor in arena_bytes.
  int64_t shared_bytes = 0;
  // Bytes in use on the whole device: contexts, libraries and other processes
  // too. 0 unless it was measured and the device knows it.
  int64_t device_bytes = 0;
  int64_t total() const {
    return arena_bytes + resident_bytes + workspace_bytes + shared_bytes;
  }
};

class Executor {
 public:
  // Takes a program of any stage; those before `scheduled` run on one stream.
  // Errors: what the verifier refuses.
  static absl::StatusOr<std::unique_ptr<Executor>> Load(Program program);
  // Loads "model.asyra", with the weights of "model.safetensors" beside it
  // where they exist. Errors also: those of ReadWeightsBeside.
  static absl::StatusOr<std::unique_ptr<Executor>> LoadFile(
      const std::string& path);
  virtual ~Executor() = default;

  // Returns the program, from Prepare on as it runs: where no chunk plans are
  // carried out (Communicator::CarriesPlans), overlaps are their ops.
  virtual const Program& program() const = 0;

  // Prepares the steps; called once. `device` and `world` outlive the executor;
  // `world` is null where the mesh is one device. Weights are looked up by name
  // in `weights`, or in the program's own store when it is null, and copied to
  // the device. State is zero until SetState.
  // Errors: a world of another size or device, ranks that do not agree, a
  // weight that is missing or of another type, ops without a kernel, memory,
  // states of another type than a StateSet has them; all ranks return one.
  virtual absl::Status Prepare(Device& device, Communicator* world,
                               const WeightStore* weights,
                               const ExecutorOptions& options = {}) = 0;

  // Ops that the device has no kernel for, so that their references run
  // instead; without repetition.
  virtual std::vector<std::string> fallback_ops() const = 0;
  // Returns what carries each collective of a step, as it really runs, sorted.
  virtual std::vector<CollectiveRun> collectives() const = 0;
  // Returns the labels (OpLabel) of those that ask for copy engines but that
  // something else carries, without repetition.
  virtual std::vector<std::string> fallback_collectives() const = 0;
  // Fusions whose ops run one after the other, since the device has no kernel
  // for all of them together, and overlaps where no chunk plans are carried
  // out; without repetition.
  virtual std::vector<std::string> split_fusions() const = 0;
  // Bytes that were planned and reserved.
  virtual MemoryUse memory() const = 0;
  // Bytes that the steps so far have written: up to the last one that was ever
  // written, in units of kDeviceAlignment. At most what was planned; less where
  // workspaces and padding were not needed. Copies all memory to the host; call
  // it between steps.
  virtual absl::StatusOr<MemoryUse> MeasureMemory() = 0;

  // Gives a state input its first value, or another one between steps; `name`
  // without the '%'. Also replaces a weight.
  virtual absl::Status SetState(std::string_view name, const Tensor& local) = 0;
  // Returns the current value of a state or weight, this rank's part.
  virtual absl::StatusOr<Tensor> State(std::string_view name) = 0;

  // Data inputs in the order of the program, of the local types.
  struct NamedInput {
    std::string_view name;
    Type local;
  };
  virtual std::vector<NamedInput> inputs() const = 0;
  // Names of the outputs: those that the model gives them.
  std::vector<std::string_view> outputs() const;

  // Runs one step: `inputs` go in the order of inputs(). Returns when it is
  // done. After an error the executor takes no more steps: each returns the
  // first error.
  virtual absl::Status Step(absl::Span<const Tensor> inputs) = 0;
  // The same with inputs by name, in any order. Errors, after which no step has
  // begun on this rank: a name that no input has (NotFound, it lists those
  // there are), an input that is given twice or not at all.
  using NamedTensor = std::pair<std::string_view, Tensor>;
  absl::Status StepByName(absl::Span<const NamedTensor> inputs);

  // The same in two halves: between them the host is free. `inputs` stay
  // valid until Finish returns.
  virtual absl::Status Start(absl::Span<const Tensor> inputs) = 0;
  virtual absl::Status Finish() = 0;

  // Start in two parts, for those who measure a step without its copies:
  // CopyInputs returns once the device has the inputs, StartCopied begins a
  // step of them. Between the two, no executor that shares this one's states
  // steps. Error of StartCopied: no inputs were copied since the last step.
  virtual absl::Status CopyInputs(absl::Span<const Tensor> inputs) = 0;
  virtual absl::Status StartCopied() = 0;

  // Steps in flight: the host does nothing between two of them.
  //
  // Enqueue puts a step behind those before it and gives its number, from 0. It
  // copies `inputs` into memory that the device reads by itself, and returns;
  // it waits only while kStepsInFlight steps have not ended.
  static constexpr int64_t kStepsInFlight = 2;
  virtual absl::StatusOr<int64_t> Enqueue(absl::Span<const Tensor> inputs) = 0;
  // The same with inputs on the device. The step begins after what the caller's
  // `stream` (a cudaStream_t; null on cpus) has been given so far, and what it
  // is given from here on begins after the step. An input at InputView is not
  // copied; others are, from device to device.
  virtual absl::StatusOr<int64_t> EnqueueViews(
      absl::Span<const DeviceView> inputs, void* stream) = 0;
  // Names of the outputs of one element that replace no state: losses, norms.
  virtual std::vector<std::string_view> scalars() const = 0;
  // Waits for a step that Enqueue gave, one of the last kStepsInFlight, and
  // gives its scalars, in their order. The steps after it go on.
  virtual absl::StatusOr<std::vector<double>> Await(int64_t step) = 0;
  // Returns the seconds of a step that was awaited: since the end of the one
  // before it, as the device saw it. The host may see an end late, where it
  // waits to enqueue the next step. Error: no step was before it, or not one of
  // the last kStepsInFlight.
  virtual absl::StatusOr<double> SecondsOf(int64_t step) const = 0;

  // Returns the memory where a step reads an input or leaves an output, this
  // rank's part. An input that is written there has no other copy. An output is
  // valid until the next step.
  virtual absl::StatusOr<DeviceView> InputView(std::string_view name) const = 0;
  virtual absl::StatusOr<DeviceView> OutputView(
      std::string_view name) const = 0;

  // Returns output `index` of the last step, this rank's part; a copy.
  virtual absl::StatusOr<Tensor> Output(size_t index) = 0;
  // The same by name. Error: no output has it (NotFound, it lists those there
  // are).
  absl::StatusOr<Tensor> Output(std::string_view name);

  // Times of the ops of the last step, by position in the program; empty
  // without ExecutorOptions::profile. Views and constants take no time and are
  // absent.
  virtual std::vector<OpTime> Profile() const = 0;
};

}  // namespace asyra
